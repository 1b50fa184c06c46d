import SyncCore
import SyncTesting
import Testing

/// Scopes of the model server (PROTOCOL.md, `scopes` and `gone`).
@Suite struct ModelScopeTests {
    private let clock = ManualWallClock()
    private let server: ModelServer

    init() throws {
        server = ModelServer(
            schema: try Schema([
                EntitySchema("board", fields: [.text("name")]),
                EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name")]),
                EntitySchema("card", fields: [.parent("idList", "list"), .text("name")]),
            ]), clock: clock)
        try write(1, .create, "board", "a", ["name": "A"])
        try write(2, .create, "board", "b", ["name": "B"])
        try write(3, .create, "list", "l", ["idBoard": "a", "name": "L"])
        try write(4, .create, "card", "c", ["idList": "l", "name": "C"])
    }

    private func write(
        _ sequence: Int64, _ operation: SyncCore.Operation, _ entity: String, _ id: String, _ fields: [String: String]
    ) throws {
        let stamp = Stamp(milliseconds: UInt64(ManualWallClock.usualStart + sequence), counter: 0)
        let change = Change(
            id: "k-\(sequence)", sequence: sequence, record: RecordKey(entity, id), operation: operation, stamp: stamp,
            fields: fields.mapValues { FieldDelta(old: nil, new: .string($0)) })
        let request = ExchangeRequest(cycleID: "w", deviceID: "writer", lastSyncVersion: 0, changes: [change])
        #expect(try server.answer(request).results.first?.verdict.isDecided == true)
    }

    /// What the scopes get: ids with their versions, and a minus where they left.
    private func page(_ scopes: [String: Int64], limit: Int = 500) throws -> (told: [String], version: Int64) {
        let answer = try server.answer(
            ExchangeRequest(
                cycleID: "c", deviceID: "reader", lastSyncVersion: 99, scopes: scopes, limit: limit, changes: []))
        let records = try answer.page.next(maxRecords: .max, maxBytes: .max)
        let told = records.map { "\($0.presence == .gone ? "-" : "")\($0.key.id)@\($0.version)" }
        return (told, answer.currentSyncVersion)
    }

    @Test("Each root is told what is under it, above its own checkpoint; an unknown one is empty")
    func roots() throws {
        #expect(try page(["board:a": 0]).told == ["a@1", "l@3", "c@4"])
        #expect(try page(["board:a": 3, "board:b": 0]).told == ["b@2", "c@4"])
        #expect(try page(["board:x": 0]) == (told: [], version: 4))
    }

    @Test("What moves to another root is gone from the first with all under it, and new in the second")
    func moved() throws {
        try write(5, .update, "list", "l", ["idBoard": "b"])
        #expect(try page(["board:a": 4]).told == ["-l@5", "-c@6"])
        #expect(try page(["board:b": 4]).told == ["l@5", "c@6"])
        #expect(try page(["board:a": 4, "board:b": 4]).told == ["l@5", "c@6"])
        // Who begins has nothing that could leave.
        #expect(try page(["board:a": 0]).told == ["a@1"])
        #expect(try page(["board:a": 5]).told == ["-c@6"])
        try write(6, .update, "list", "l", ["idBoard": "a"])
        #expect(try page(["board:a": 4]).told == ["l@7", "c@8"])
    }

    @Test("A page ends at its last version, a leave's too")
    func pages() throws {
        try write(5, .update, "list", "l", ["idBoard": "b"])
        #expect(try page(["board:a": 4], limit: 1) == (told: ["-l@5"], version: 5))
        #expect(try page(["board:a": 5], limit: 1) == (told: ["-c@6"], version: 6))
    }
}
