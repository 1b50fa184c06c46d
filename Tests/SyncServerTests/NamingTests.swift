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

    @Test("NET-03, seed 72: what is asked again by the server's ids is the same; what says otherwise is not")
    func askedAgainByOtherNames() throws {
        let server = try TestServer { $0.makesIDs = true }
        func list(_ board: FieldValue, _ number: FieldValue = 1) -> FieldValue {
            server.create("k2", 2, "list", "y", ["idBoard": board, "n": number], at: -800)
        }
        func update(_ list: String, _ board: (FieldValue, FieldValue)) -> FieldValue {
            server.update("k3", 3, "list", list, ["idBoard": board], at: -700)
        }
        let made = try server.sync(
            "d",
            [
                server.create("k1", 1, "board", "x", ["n": 1], at: -900), list("x"), update("y", ("x", nil)),
            ])
        let board = try #require(made.result("k1")["serverID"].string)
        let named = try #require(made.result("k2")["serverID"].string)
        #expect(made.result("k3")["verdict"].string == "applied")
        // A client learns the ids of what it made one by one: each way of telling it is the same.
        for again in [list("x"), list(.string(board)), update("y", (.string(board), nil)), update(named, ("x", nil))] {
            let result = try #require(try server.sync("d", [again]).results.first)
            #expect(result["verdict"].string == "duplicate" && result["first"].string == "applied")
        }
        for other in [list("z"), list(.string(board), 2), update(board, ("x", nil)), update("y", ("z", nil))] {
            let result = try #require(try server.sync("d", [other]).results.first)
            #expect(result["error"]["code"].string == "keyReused")
        }
    }

    @Test("PRC-16, seed 1798: what was asked by the device's id, and did not win, tells the server's beside the record")
    func toldBesideOthers() throws {
        let server = try TestServer { $0.makesIDs = true }
        let create = server.create("k1", 1, "board", "x", ["n": 1, "c": 1], at: -900)
        let id = try #require(try server.sync("d", [create]).result("k1")["serverID"].string)
        _ = try server.sync("e", [server.update("k1", 1, "board", id, ["n": (1, 2)], at: -100)])
        // A copy of the device's file has lost what was said of the create.
        let late = server.update("k2", 2, "board", "x", ["n": (1, 3)], at: -500)
        for _ in 1...2 {
            let result = try server.sync("d", [late]).result("k2")
            #expect(result["verdict"].string == "merged" || result["first"].string == "merged")
            #expect(result["record"]["id"].string == id && result["serverID"].string == id)
        }
        // Also where it won: it has no row of that name, or another one (seed 20505).
        let edit = server.update("k4", 4, "board", "x", ["c": (1, 2)], at: -50)
        for _ in 1...2 {
            let result = try server.sync("d", [edit]).result("k4")
            #expect(result["verdict"].string == "applied" || result["first"].string == "applied")
            #expect(result["serverID"].string == id)
        }
        let made = [
            server.create("k5", 5, "board", "y", ["n": 1], at: -40),
            server.update("k6", 6, "board", "y", ["n": (1, 2)], at: -30),
        ]
        let both = try server.sync("d", made)
        #expect(both.result("k5")["serverID"].string != nil && both.result("k6")["serverID"].string == nil)
        // A copy that heard of neither asks the update again, beside a create of its own (seed 24915).
        let copied = [
            server.create("k7", 7, "board", "y", ["n": 9], at: -20),
            server.update("k6", 6, "board", "y", ["n": (1, 2)], at: -30),
        ]
        let heard = try server.sync("d", copied)
        #expect(heard.result("k7")["error"]["code"].string == "idTaken")
        #expect(heard.result("k6")["first"].string == "applied" && heard.result("k6")["version"].int != nil)
        #expect(heard.result("k6")["serverID"].string == both.result("k5")["serverID"].string)
        // Who knows the server's id needs no other.
        let own = try server.sync("d", [server.update("k3", 3, "board", id, ["n": (1, 4)], at: -400)]).result("k3")
        #expect(own["verdict"].string == "merged" && own["serverID"].string == nil)
    }

    @Test("NET-03 a refusal is told again as it was, also where its record has another id by then")
    func refusedBeforeNamed() throws {
        let server = try TestServer { $0.makesIDs = true }
        let early = server.create("k1", 1, "list", "y", ["idBoard": "x"], at: -900)
        #expect(try server.sync("d", [early]).result("k1")["error"]["code"].string == "missingReference")
        let board = server.create("k2", 2, "board", "x", ["n": 1], at: -800)
        #expect(try server.sync("d", [board]).result("k2")["serverID"].string != nil)
        let again = try server.sync("d", [early]).result("k1")
        #expect(again["verdict"].string == "duplicate" && again["first"].string == "rejected")
    }

    @Test(
        "IDS-01, seed 20505: who refers to a record by a name that this answer does not tell is told what stands there")
    func translated() throws {
        let server = try TestServer { $0.makesIDs = true }
        func list(_ key: String, _ number: Int64, _ id: String, in board: String) -> FieldValue {
            server.create(key, number, "list", id, ["idBoard": .string(board)], at: -800)
        }
        let made = try server.sync(
            "d", [server.create("k1", 1, "board", "x", ["n": 1], at: -900), list("k2", 2, "y", in: "x")])
        let board = try #require(made.result("k1")["serverID"].string)
        // Made by this very request: its answer names it, and nothing is left to say.
        #expect(made.records.isEmpty)
        let version = try #require(made.value["currentSyncVersion"].int)
        // A copy of the device's file does not know the board's other name.
        let answer = try server.sync(
            "e", [list("k3", 1, "z", in: "x")], ["lastSyncVersion": .int(version)])
        #expect(answer.result("k3")["verdict"].string == "applied")
        #expect(answer.records.map { $0["fields"]["idBoard"].string } == [board])
        // Who knows it needs nothing.
        let known = try server.sync(
            "e", [list("k4", 2, "w", in: board)], ["lastSyncVersion": .int(version + 1)])
        #expect(known.result("k4")["verdict"].string == "applied" && known.records.isEmpty)
    }

    @Test("IDS-02 a field that names a record and goes with nothing names it by the server's id, too")
    func otherReferences() throws {
        let server = try TestServer {
            $0.makesIDs = true
            $0.entities = [
                ServerEntity("board", collection: "boards"),
                ServerEntity("note", collection: "notes", references: [.init(field: "idBoardSeen", entity: "board")]),
            ]
        }
        let made = try server.sync(
            "d",
            [
                server.create("k1", 1, "board", "x", ["n": 1], at: -900),
                server.create("k2", 2, "note", "y", ["idBoardSeen": "x"], at: -800),
            ])
        let board = try #require(made.result("k1")["serverID"].string)
        let note = try server.sync("reader").records.first { $0["entity"].string == "note" }
        #expect(note?["fields"]["idBoardSeen"].string == board)
        // Nothing follows from it.
        _ = try server.sync("d", [server.delete("k3", 3, "board", board, at: -700)])
        #expect(try server.sync("reader").records.contains { $0["entity"].string == "note" && !$0["deleted"].bool })
    }

    @Test(
        "Seed 33909: what names a record whose create is not done waits for that, though it does not go with it",
        arguments: [true, false])
    func refusedReference(makesIDs: Bool) throws {
        let server = try TestServer {
            $0.makesIDs = makesIDs
            $0.policy = { _, question in question.changeID == "k1" ? .forbid(message: "not today") : .allow }
            $0.entities = [
                ServerEntity("board", collection: "boards"),
                ServerEntity("note", collection: "notes", references: [.init(field: "idBoardSeen", entity: "board")]),
            ]
        }
        let note = server.create("k2", 2, "note", "y", ["idBoardSeen": "x"], at: -800)
        let first = try server.sync("d", [server.create("k1", 1, "board", "x", ["n": 1], at: -900), note])
        #expect(first.result("k1")["verdict"].string == "rejected")
        #expect(first.result("k2")["verdict"].string == (makesIDs ? "blocked" : "applied"))
        guard makesIDs else { return }
        #expect(first.result("k2")["by"].string == "k1")
        let again = try server.sync("d", [server.create("k3", 3, "board", "x", ["n": 1], at: -900), note])
        let board = try #require(again.result("k3")["serverID"].string)
        #expect(
            try server.sync("reader").records.first { $0["entity"].string == "note" }?["fields"]["idBoardSeen"].string
                == board)
    }
}
