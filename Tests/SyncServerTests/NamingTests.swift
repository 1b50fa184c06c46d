import SyncCore
import Testing

@testable import SyncServer

@Suite("A server that makes its own ids")
struct NamingTests {
    /// The ids that the server has given, and the records that live.
    private func names(_ answers: [Answer], _ server: TestServer) throws -> (given: Set<String>, live: [String]) {
        let given = Set(answers.flatMap(\.results).compactMap { $0["serverID"].string })
        let live = try server.sync("reader").records.filter { !$0["deleted"].bool }.compactMap { $0["id"].string }
        return (given, live)
    }

    @Test(
        "names a record once, however often it is deleted and created, in one request or in several",
        arguments: [true, false])
    func again(isOne: Bool) throws {
        let server = try TestServer { $0.makesIDs = true }
        let changes = [
            server.create("k1", 1, "board", "x", ["n": 1], at: -900), server.delete("k2", 2, "board", "x", at: -800),
            server.create("k3", 3, "board", "x", ["n": 2], at: -700), server.delete("k4", 4, "board", "x", at: -600),
            server.create("k5", 5, "board", "x", ["n": 3], at: -500),
        ]
        let answers = try isOne ? [server.sync("d", changes)] : changes.map { try server.sync("d", [$0]) }
        let (given, live) = try names(answers, server)
        #expect(given.count == 1)
        #expect(live == Array(given))
    }

    @Test(
        "a record that was deleted before anybody heard of it keeps the device's name, in one request or in several",
        arguments: [true, false], [-900, -700] as [Int64])
    func deletedFirst(isOne: Bool, stamp: Int64) throws {
        let server = try TestServer { $0.makesIDs = true }
        let changes = [
            server.delete("k1", 1, "board", "x", at: -800), server.create("k2", 2, "board", "x", ["n": 1], at: stamp),
        ]
        let answers = try isOne ? [server.sync("d", changes)] : changes.map { try server.sync("d", [$0]) }
        let (given, live) = try names(answers, server)
        #expect(given.isEmpty)
        #expect(live == (stamp > -800 ? ["x"] : []))
    }

    @Test("who knows it under the server's name deletes and creates it under that", arguments: [true, false])
    func otherDevice(isOne: Bool) throws {
        let server = try TestServer { $0.makesIDs = true }
        let made = try server.sync("d", [server.create("k1", 1, "board", "x", ["n": 1], at: -900)])
        let id = try #require(made.result("k1")["serverID"].string)
        let changes = [
            server.delete("k1", 1, "board", id, at: -800), server.create("k2", 2, "board", id, ["n": 2], at: -700),
        ]
        let answers = try isOne ? [server.sync("e", changes)] : changes.map { try server.sync("e", [$0]) }
        #expect(try names(answers, server).given.isEmpty)
        #expect(try names(answers, server).live == [id])
        let own = [
            server.delete("k2", 2, "board", "x", at: -600), server.create("k3", 3, "board", "x", ["n": 3], at: -500),
        ]
        let (given, live) = try names([try server.sync("d", own)], server)
        #expect(given.isSubset(of: [id]))
        #expect(live == [id])
    }

    @Test("IDS-01, PRC-19 a create that was decided once, nobody knows how, hears under which id its record is here")
    func decidedOnce() throws {
        let server = try TestServer { $0.makesIDs = true }
        let create = server.create("k1", 1, "board", "x", ["n": 1], at: -900)
        let id = try #require(try server.sync("d", [create]).result("k1")["serverID"].string)
        let other = try server.sync("d", [server.create("k1", 1, "board", "x", ["n": 2], at: -900)]).result("k1")
        #expect(other["error"]["code"].string == "keyReused")
        #expect(other["serverID"].string == id)
        _ = try server.sync("d", [server.update("k2", 2, "board", "x", ["n": (1, 3)], at: -800)], ["settled": 1])
        let later = try server.sync("d", [create, server.create("k0", 1, "board", "y", ["n": 1], at: -900)])
        #expect(later.result("k1")["error"]["code"].string == "expired")
        #expect(later.result("k1")["serverID"].string == id)
        // Of what was never made here there is no name.
        #expect(later.result("k0")["error"]["code"].string == "expired")
        #expect(later.result("k0")["serverID"].string == nil)
    }
}
