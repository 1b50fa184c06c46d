import GRDB
@testable import Storage
import SyncCore
import Testing

/// Records that need one another, in whatever order and however many slices they come.
@Suite("Applying what needs one another")
struct ApplyOrderTests {
    @Test("DAT-10 a child before its parent is held, survives a restart, and comes with the parent")
    func childFirst() async throws {
        let f = try Fixture()
        try await f.apply(record("card", "c1", 1, ["name": "C", "idList": "l1"]))
        try await f.apply(record("list", "l1", 2, ["name": "L", "idBoard": "b1"]))
        #expect(try await f.store.held().map(\.reason) == [.parent, .parent])
        #expect(try await f.store.position().held == 2)
        try await f.store.close()
        let g = try Fixture(file: f.file)
        #expect(try await g.store.position().held == 2)
        try await g.apply(record("board", "b1", 3, ["name": "B"]))
        #expect(try await g.store.held().isEmpty)
        #expect(try g.text("SELECT name FROM card") == "C")
    }

    @Test("DAT-10 within one slice the order does not matter")
    func childFirstInSlice() async throws {
        let f = try Fixture()
        let report = try await f.apply(
            record("card", "c1", 1, ["name": "C", "idList": "l1"]),
            record("list", "l1", 2, ["name": "L", "idBoard": "b1"]), record("board", "b1", 3, ["name": "B"]))
        #expect(report.held == 0)
        #expect(report.applied == 3)
        #expect(try await f.store.held().isEmpty)
    }

    /// Of two entities that refer to each other.
    private func twoEntities() async throws -> Fixture {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE a (id TEXT PRIMARY KEY, idB TEXT REFERENCES b (id))")
            try db.execute(sql: "CREATE TABLE b (id TEXT PRIMARY KEY, idA TEXT REFERENCES a (id), CHECK (id <> '8'))")
        }
        try queue.close()
        let schema = try Schema([
            EntitySchema("a", fields: [.reference("idB", "b")]), EntitySchema("b", fields: [.reference("idA", "a")]),
        ])
        return try Fixture(schema, file: file)
    }

    @Test("DAT-11 records that refer to each other are applied together")
    func circle() async throws {
        let f = try await twoEntities()
        try await f.apply(record("a", "1", 1, ["idB": "2"]), record("b", "2", 2, ["idA": "1"]))
        #expect(try await f.store.held().isEmpty)
        #expect(try f.int("SELECT count(*) FROM b") == 1)
        try await f.apply(record("a", "3", 3, ["idB": "9"]), record("b", "4", 4, ["idA": "3"]))
        #expect(try await f.store.held().count == 2)
        #expect(try f.int("SELECT count(*) FROM a") == 1)
    }

    @Test("DAT-11 seed 16687: also where they come slices apart, whatever each was waiting for first")
    func circleOverSlices() async throws {
        let f = try await twoEntities()
        try await f.apply(record("a", "1", 1, ["idB": "2"]), record("b", "5", 2, ["idA": "1"]))
        #expect(try await f.store.held().count == 2)
        try await f.apply(record("b", "2", 3, ["idA": "3"]))
        #expect(try await f.store.held().count == 3)
        try await f.apply(record("a", "3", 4, ["idB": "5"]))
        #expect(try await f.store.held().isEmpty)
        #expect(try f.int("SELECT count(*) FROM a") == 2)
        #expect(try f.int("SELECT count(*) FROM b") == 2)
    }

    @Test("DAT-11 a record that refers to itself waits for nobody: applied by a page, and sent as it was made here")
    func selfReference() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "c2", 4, ["name": "Two", "idList": "l1", "idTwin": "c2"]))
        #expect(try await f.store.held().isEmpty)
        #expect(try f.text("SELECT idTwin FROM card WHERE id = 'c2'") == "c2")
        try f.sql("INSERT INTO card (id, name, idList, idTwin) VALUES ('c3', 'Three', 'l1', 'c3')")
        try f.sql("UPDATE card SET idTwin = 'c1' WHERE id = 'c1'")
        let claim = try await f.claim()
        #expect(claim.changes.map(\.change.record.id) == ["c3", "c1"])
        #expect(claim.changes.map { $0.change.fields["idTwin"]?.new } == ["c3", "c1"])
        try await f.settle((claim.keys[0], .applied(5)), (claim.keys[1], .applied(6)))
        #expect(try f.queue().isEmpty)
        try await f.apply(record("card", "c3", 5, ["name": "Three", "idList": "l1", "idTwin": "c3"]))
        #expect(try await f.store.held().isEmpty)
    }

    @Test(
        "DAT-11 DAT-25 of records that refer to each other one does not fit its table: all wait, and the slice stands")
    func brokenCircle() async throws {
        let f = try await twoEntities()
        try await f.apply(record("a", "1", 1, ["idB": "8"]), record("b", "8", 2, ["idA": "1"]), record("a", "2", 3))
        #expect(try f.text("SELECT group_concat(id) FROM a") == "2")
        #expect(try await f.store.held().map(\.reason) == [.parent, .parent])
        // A row that is there moves under one that cannot come.
        try await f.apply(record("b", "8", 4, ["idA": "2"]), record("a", "2", 5, ["idB": "8"]), record("a", "3", 6))
        #expect(try f.text("SELECT group_concat(id) FROM a") == "2,3")
        #expect(try f.int("SELECT count(*) FROM a WHERE idB IS NOT NULL") == 0)
        #expect(try await f.store.held().count == 3)
    }
}
