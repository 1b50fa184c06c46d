import GRDB
import SyncCore
import SyncTesting
import Testing

@testable import SyncServer

/// PROTOCOL.md, *Records*: a record from a page is taken unless its version is below the one held, and so is a leave.
@Suite("A leave that the device had not heard of when it changed the record")
struct LeaveTests {
    private static let c = RecordKey("card", "c")
    private static let d = RecordKey("card", "d")

    private func change(
        _ sequence: Int64, _ key: RecordKey, base: Int64? = nil, _ fields: [String: (FieldValue, FieldValue)] = [:],
        rule: MergeRule = .lastWriter, unit: String? = nil, operation: SyncCore.Operation = .update
    ) -> Change {
        Change(
            id: "k\(sequence)", sequence: sequence, record: key, operation: operation,
            stamp: Stamp(milliseconds: 1_000_000 + UInt64(sequence), counter: 0), baseVersion: base,
            fields: fields.mapValues { FieldDelta(old: $0, new: $1, rule: rule) }, unit: unit)
    }

    private func create(_ sequence: Int64, _ key: RecordKey, _ values: [String: FieldValue] = [:]) -> Change {
        change(sequence, key, values.mapValues { (.null, $0) }, operation: .create)
    }

    private struct Scene {
        let server: any AskedServer
        var device: LiteralClient
    }

    /// Boards a and b with a list each, two cards in the first one's, and a device that holds board a, up to version 6.
    private func boards(_ kind: EitherServer) throws -> Scene {
        let server = try kind.make()
        let made = [
            create(1, RecordKey("board", "a")), create(2, RecordKey("board", "b")),
            create(3, RecordKey("list", "la"), ["idBoard": "a"]),
            create(4, RecordKey("list", "lb"), ["idBoard": "b"]),
            create(5, Self.c, ["idList": "la", "name": "C"]),
            create(6, Self.d, ["idList": "la", "name": "D"]),
        ]
        #expect(try server.ask("w", made, of: [:], limit: 500).results.allSatisfy { $0.verdict == "applied" })
        var device = LiteralClient("e", server, ["board:a": 0])
        try device.sync()
        #expect(device.held[Self.c] == 5)
        return Scene(server: server, device: device)
    }

    /// Another device's changes, beside which it asks for nothing.
    @discardableResult
    private func others(_ server: any AskedServer, _ changes: Change...) throws -> Told {
        try server.ask("w", changes, of: [:], limit: 500)
    }

    /// Somebody else moves the card to the other board: version 7.
    private func moveAway(_ server: any AskedServer) throws {
        try others(server, change(7, Self.c, base: 5, ["idList": ("la", "lb")]))
    }

    @Test("comes under the version of an edit that was done over an older base", arguments: EitherServer.allCases)
    func edit(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        let told = try scene.device.sync([change(21, Self.c, base: 5, ["name": ("C", "E")])])
        #expect(told.results == [.init(changeID: "k21", verdict: "applied", version: 8)])
        #expect(told.page == ["-c@8"])
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test("comes under the version of an edit that lost", arguments: EitherServer.allCases)
    func merged(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(scene.server, change(30, Self.c, base: 7, ["name": ("C", "W")]))
        let told = try scene.device.sync([change(21, Self.c, base: 5, ["name": ("C", "E")])])
        #expect(told.results.map(\.verdict) == ["merged"])
        #expect(told.page == ["-c@\(told.results[0].version ?? 0)"])
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test("of the device's own move comes under the version of the edit after it", arguments: EitherServer.allCases)
    func moveAndEdit(kind: EitherServer) throws {
        var scene = try boards(kind)
        let told = try scene.device.sync([
            change(21, Self.c, base: 5, ["idList": ("la", "lb")]), change(22, Self.c, base: 5, ["name": ("C", "E")]),
        ])
        #expect(told.results.map(\.version) == [7, 8])
        #expect(told.page == ["-c@8"])
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test("of what the same request made comes under the version of its last edit", arguments: EitherServer.allCases)
    func createAndMove(kind: EitherServer) throws {
        var scene = try boards(kind)
        let new = RecordKey("card", "n")
        let told = try scene.device.sync([
            create(21, new, ["idList": "la"]), change(22, new, ["idList": ("la", "lb")]),
            change(23, new, ["name": (.null, "E")]),
        ])
        #expect(told.results.map(\.version) == [7, 8, 9])
        #expect(told.page == ["-n@9"])
    }

    @Test("comes under the version of the record that a conflict tells", arguments: EitherServer.allCases)
    func conflict(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(scene.server, change(8, Self.c, base: 7, ["name": ("C", "W")]))
        let told = try scene.device.sync([change(21, Self.c, base: 5, ["name": ("C", "E")], rule: .check)])
        #expect(told.results == [.init(changeID: "k21", verdict: "conflict", version: 8)])
        #expect(told.page == ["-c@8"])
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test("comes so also where the conflict undid its unit", arguments: EitherServer.allCases)
    func undoneUnit(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(scene.server, change(8, Self.c, base: 7, ["name": ("C", "W")]))
        let told = try scene.device.sync([
            change(21, Self.d, base: 6, ["name": ("D", "E")], unit: "u"),
            change(22, Self.c, base: 5, ["name": ("C", "E")], rule: .check, unit: "u"),
        ])
        #expect(told.results.map(\.verdict) == ["blocked", "conflict"])
        #expect(told.page == ["-c@8"])
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test(
        "comes as it was where a refused member undid the unit: nothing is told of the record",
        arguments: EitherServer.allCases)
    func refusedUnit(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(scene.server, change(8, Self.c, base: 7, ["name": ("C", "W")]))
        let told = try scene.device.sync([
            change(21, Self.c, base: 5, ["name": ("C", "E")], unit: "u"),
            change(22, RecordKey("card", "none"), ["name": ("D", "E")], unit: "u"),
            change(23, Self.d, base: 6, ["name": ("D", "E")]),
        ])
        #expect(told.results.map(\.verdict) == ["rejected", "rejected", "applied"])
        #expect(told.page.first == "-c@7")
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test(
        "is not told again for an edit over what the record was when it left, or later",
        arguments: EitherServer.allCases)
    func laterBase(kind: EitherServer) throws {
        let scene = try boards(kind)
        try moveAway(scene.server)
        var other = LiteralClient("f", scene.server, ["board:b": 0])
        try other.sync()
        #expect(try other.sync([change(21, Self.c, base: 7, ["name": ("C", "E")])]).results.map(\.version) == [8])
        try others(scene.server, change(22, Self.c, base: 8, ["name": ("E", "W")]))
        #expect(try scene.server.ask("e", [], of: scene.device.scopes, limit: 500).page == ["-c@7"])
        #expect(try scene.server.ask("e", [], of: ["board:a": 7], limit: 500).page == [])
    }

    @Test("is not told again where what decides is that nothing is there", arguments: EitherServer.allCases)
    func deleted(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(scene.server, change(8, Self.c, base: 7, operation: .delete))
        let told = try scene.device.sync([change(21, Self.c, base: 5, operation: .delete)])
        #expect(told.results == [.init(changeID: "k21", verdict: "applied", version: nil)])
        #expect(told.page == ["-c@7"])
    }

    @Test("is told again to who had heard of it and sends an older edit afterwards", arguments: EitherServer.allCases)
    func heard(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(scene.server, change(30, Self.c, base: 7, ["name": ("C", "W")]))
        #expect(try scene.device.pull() == ["-c@7"])
        // It lost, so the verdict brings the record.
        let told = try scene.device.sync([change(21, Self.c, base: 5, ["name": ("C", "E"), "more": (.null, "E")])])
        #expect(told.results.map(\.verdict) == ["merged"])
        #expect(told.page == ["-c@9"])
        #expect(scene.device.held[Self.c] == nil)
    }

    @Test("stays ahead of a device that edits on before the page with it came", arguments: EitherServer.allCases)
    func cutPage(kind: EitherServer) throws {
        var scene = try boards(kind)
        try moveAway(scene.server)
        try others(
            scene.server, change(8, Self.d, base: 6, ["name": ("D", "W")]),
            change(9, RecordKey("list", "la"), base: 3, ["name": (.null, "W")]))
        let first = try scene.device.sync([change(21, Self.c, base: 5, ["name": ("C", "E")])], limit: 1)
        #expect(first.page == ["d@8"] && first.hasMore)
        #expect(scene.device.held[Self.c] == 10)
        let second = try scene.device.sync([change(22, Self.c, base: 10, ["name": ("E", "F")])], limit: 1)
        #expect(second.page == ["la@9"] && second.hasMore)
        #expect(scene.device.held[Self.c] == 11)
        #expect(try scene.device.pull(limit: 1) == ["-c@11"])
        #expect(scene.device.held[Self.c] == nil)
        // Who asks for the root that it is under has not lost it.
        var both = LiteralClient("f", scene.server, ["board:a": 6, "board:b": 11])
        try both.sync([change(25, Self.c, base: 11, ["name": ("F", "G")])])
        #expect(try scene.server.ask("g", [], of: ["board:a": 6], limit: 500).page == ["d@8", "la@9", "-c@11"])
    }

    @Test("of two roots asked for is told once, and pages of one go on behind it", arguments: EitherServer.allCases)
    func twoRoots(kind: EitherServer) throws {
        var scene = try boards(kind)
        try others(
            scene.server, create(17, RecordKey("board", "z")),
            create(18, RecordKey("list", "lz"), ["idBoard": "z"]))
        scene.device.scopes = ["board:a": 6, "board:b": 6]
        try moveAway(scene.server)
        try others(
            scene.server, change(19, Self.c, base: 9, ["idList": ("lb", "lz")]),
            change(20, Self.d, base: 6, ["idList": ("la", "lz")]),
            change(21, RecordKey("list", "lb"), base: 4, ["name": (.null, "W")]))
        var pages = try scene.device.sync([change(22, Self.c, base: 5, ["name": ("C", "E")])], limit: 1).page
        try others(scene.server, change(23, RecordKey("list", "la"), base: 3, ["name": (.null, "W")]))
        pages += try scene.device.pull(limit: 1)
        #expect(pages == ["-d@11", "lb@12", "-c@13", "la@14"])
        #expect(scene.device.held[Self.c] == nil)
    }
}

@Suite("A leave that is told again, in the reference server")
struct LeaveToldAgainTests {
    private let server: TestServer

    /// As above: the card left board a with version 7.
    init() throws {
        server = try TestServer()
        try server.sync(
            "w",
            [
                server.create("t1", 1, "board", "a", at: -9_000), server.create("t2", 2, "board", "b", at: -9_000),
                server.create("t3", 3, "list", "la", ["idBoard": "a"], at: -9_000),
                server.create("t4", 4, "list", "lb", ["idBoard": "b"], at: -9_000),
                server.create("t5", 5, "card", "c", ["idList": "la"], at: -9_000),
                server.create("t6", 6, "card", "d", ["idList": "la"], at: -9_000),
                server.update("t7", 7, "card", "c", ["idList": ("la", "lb")], at: -8_000, ["baseVersion": 5]),
            ])
    }

    @discardableResult
    private func scoped(_ checkpoint: Int64, _ changes: [FieldValue] = [], _ more: [String: FieldValue] = [:]) throws
        -> Answer
    {
        try server.sync("e", changes, ["scopes": ["board:a": .int(checkpoint)]].merging(more) { $1 })
    }

    private func edit(_ key: String, _ sequence: Int64, _ id: String, _ more: [String: FieldValue] = [:]) -> FieldValue
    {
        server.update(key, sequence, "card", id, ["name": (.null, "E")], at: -1_000, more)
    }

    private func told(_ answer: Answer) -> [String] {
        answer.records.map {
            "\($0["gone"].bool ? "-" : "")\($0["id"].string ?? "")@\($0["version"].int ?? 0)"
        }
    }

    @Test("a write by REST says nothing of what was heard, and tells nothing again")
    func rest() throws {
        let reply = server.service.rest(
            account: "a",
            request: RESTRequest(
                method: "PUT", path: "/1/cards/c", headers: [.init("Sync-Device", "r")],
                body: try FieldValue.object(["name": "E"]).json()))
        #expect(reply.status == 200)
        #expect(try told(scoped(6)) == ["-c@7"])
        #expect(try told(scoped(7)) == [])
    }

    @Test("DAT-28 it comes within the unit of the edit")
    func unit() throws {
        try scoped(
            6,
            [
                edit("k1", 1, "c", ["baseVersion": 5, "transaction": "u"]),
                edit("k2", 2, "d", ["baseVersion": 6, "transaction": "u"]),
            ])
        let page = try server.sync("f", [], ["scopes": ["board:a": 6], "limit": 1])
        #expect(told(page) == ["-c@8", "d@9"])
        #expect(page["hasMore"] == false)
    }

    @Test("a page that was read ahead is not given when its leaves are told again")
    func ahead() throws {
        try server.sync(
            "w", [edit("t8", 8, "d", ["baseVersion": 6]), edit("t9", 9, "c", ["baseVersion": 7])], from: 7)
        #expect(try told(scoped(6, [], ["limit": 1])) == ["-c@7"])
        #expect(server.service.readAhead())
        let conflict = server.update(
            "k1", 1, "card", "c", ["name": ("C", "X")], rule: "check", at: -900, ["baseVersion": 5])
        #expect(try server.sync("x", [conflict], ["scopes": [:]]).verdict("k1") == "conflict")
        let page = try scoped(7, [], ["limit": 1])
        #expect(told(page) == ["d@8"])
        #expect(page["hasMore"] == true)
        #expect(try told(scoped(8, [], ["limit": 1])) == ["-c@9"])
    }

    @Test("DL-12 it is kept from then on as long as any")
    func pruned() throws {
        server.clock.advance(by: server.configuration.retention.tombstones - 1)
        try scoped(6, [edit("k1", 1, "c", ["baseVersion": 5])])
        server.clock.advance(by: 1)
        try server.service.prune()
        #expect(try told(scoped(6)) == ["-c@8"])
        server.clock.advance(by: server.configuration.retention.tombstones)
        try server.service.prune()
        #expect(try server.send("e", [], ["scopes": ["board:a": 6]]).status == 410)
        #expect(try told(scoped(8)) == [])
    }

    @Test("what left is found by its record")
    func index() throws {
        let plan = try DatabaseQueue(path: server.path).read { db in
            try Row.fetchAll(
                db, sql: "EXPLAIN QUERY PLAN \(EffectWriter.againTold)", arguments: [1, 1, 1, 1]
            ).map { $0["detail"] as String }
        }
        #expect(plan.count == 1 && plan[0].contains("record=?"), "\(plan)")
    }
}
