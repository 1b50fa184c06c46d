import GRDB
import Storage
import SyncCore
import Testing

/// Entities whose changes the app itself hands over.
@Suite("Explicit capture")
struct ExplicitCaptureTests {
    /// Boards, lists and cards, of which these are captured by the app's word.
    private func fixture(_ explicit: Set<String> = ["board", "list", "card"]) throws -> Fixture {
        let entities = try boardSchema().entities.map { entity in
            EntitySchema(
                entity.name, capture: explicit.contains(entity.name) ? .explicit : .triggers, fields: entity.fields)
        }
        return try Fixture(Schema(entities))
    }

    private func boards(_ f: Fixture, _ count: Int) async throws {
        for n in 1...count { try await f.apply(record("board", "b\(n)", Int64(n), ["name": .string("B\(n)")])) }
    }

    private func passed(_ f: Fixture) async throws -> [String] {
        try await f.store.events().filter { $0.kind == "passedBy" }.compactMap { $0.record?.id }
    }

    private func delta(_ id: String, _ old: FieldValue, _ new: FieldValue) -> FoundChange {
        FoundChange(
            record: RecordKey("board", id), operation: .update, fields: ["name": FieldDelta(old: old, new: new)])
    }

    @Test("A note that an app edits by its own word, as in the guide")
    func guide() async throws {
        let f = try Fixture(Schema([EntitySchema("note", capture: .explicit, fields: [.text("text")])]))
        let store = f.store
        try await f.apply(record("note", "n1", 1, ["text": "bread"]))
        try await store.write(intent: "jot") { db, record in
            let old = try String.fetchOne(db, sql: "SELECT text FROM note WHERE id = 'n1'") ?? ""
            try db.execute(sql: "UPDATE note SET text = 'milk' WHERE id = 'n1'")
            let fields = ["text": FieldDelta(old: .string(old), new: "milk")]
            try record(FoundChange(record: RecordKey("note", "n1"), operation: .update, fields: fields))
        }
        #expect(try f.changes().map(\.fields) == [["text": FieldDelta(old: "bread", new: "milk")]])
        #expect(try f.changes().map(\.intent) == ["jot"])
    }

    @Test("What the app hands over, and what is noticed beside it, stands in one transaction, one unit, one intent")
    func besideOthers() async throws {
        let f = try fixture(["list"])
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT INTO list (id, idBoard, name) VALUES ('l1', 'b1', 'L')")
        try f.sql("INSERT INTO card (id, idList, name) VALUES ('c1', 'l1', 'C')")
        #expect(try await passed(f) == ["l1"])
        try f.sql("DELETE FROM sync_change")
        try await f.store.write(unit: true, intent: "clear") { db, record in
            try db.execute(sql: "UPDATE board SET name = 'B' WHERE id = 'b1'")
            try db.execute(sql: "DELETE FROM list WHERE id = 'l1'")
            try record(
                FoundChange(
                    record: RecordKey("list", "l1"), operation: .delete,
                    fields: ["name": FieldDelta(old: "L", new: .null)]))
        }
        #expect(try f.changes().map { "\($0.operation) \($0.record.id)" } == ["update b1", "delete c1", "delete l1"])
        #expect(Set(try f.changes().map(\.intent)) == ["clear"])
        #expect(Set(try f.changes().map(\.unit)).count == 1)
        #expect(try f.changes().allSatisfy { $0.unit != nil })
        #expect(try await passed(f) == ["l1"])
    }

    @Test("A row that the app writes and says nothing of is reported, also where it speaks of others")
    func forgotten() async throws {
        let f = try fixture()
        try await boards(f, 2)
        try await f.store.write { db, record in
            try db.execute(sql: "UPDATE board SET name = 'New'")
            try record(delta("b1", "B1", "New"))
        }
        #expect(try f.changes().map(\.record.id) == ["b1"])
        #expect(try await passed(f) == ["b2"])
    }

    @Test("A row without what it refers to is refused where it is written, as any other write, and leaves nothing")
    func foreignKey() async throws {
        let f = try fixture()
        await #expect(throws: StoreFailure.self) {
            try await f.store.write { db, record in
                try record(delta("b1", "B1", "New"))
                #expect(throws: DatabaseError.self) {
                    try db.execute(sql: "INSERT INTO list (id, idBoard, name) VALUES ('l1', 'nobody', 'L')")
                }
                throw DatabaseError(resultCode: .SQLITE_CONSTRAINT)
            }
        }
        #expect(try f.changes().isEmpty)
    }

    @Test(
        "DL-09, seed 54 with `--capture explicit`: what history lost is sent again, where only the app's word is a change"
    )
    func lost() async throws {
        let f = try fixture()
        try await f.applyOlderHistory()
        #expect(try await f.store.restoreLost() == 2)
        let changes = try f.changes()
        #expect(changes.map { "\($0.operation) \($0.record.id)" } == ["update b1", "create b10"])
        #expect(changes.first?.fields == ["name": FieldDelta(old: "Old", new: "B1")])
        #expect(changes.last?.fields["name"]?.new == "B10")
        #expect(try await passed(f).isEmpty)
    }

    @Test("DL-09 a delete that history lost is done again, though only the app's word makes a change")
    func lostDelete() async throws {
        let f = try fixture()
        try await boards(f, 10)
        try await f.store.write { db, record in
            try db.execute(sql: "DELETE FROM board WHERE id = 'b1'")
            try record(FoundChange(record: RecordKey("board", "b1"), operation: .delete, fields: [:]))
        }
        try await f.settle((f.claim().keys[0], .applied(13)))
        try await f.store.beginFullPass(epoch: "e-2")
        let records = (1...10).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 10, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        let entry = try #require(try await f.store.conflicts().first { $0.kind == "lostByServer" })
        #expect(try await f.store.restoreLoser(entry.number) == RecordKey("board", "b1"))
        #expect(try f.changes().map { "\($0.operation) \($0.record.id)" } == ["delete b1"])
        #expect(try f.int("SELECT count(*) FROM board WHERE id = 'b1'") == 0)
        #expect(try await passed(f).isEmpty)
    }

    @Test("A row that stays on this device has no changes, whatever is handed over of it; released, it is a create")
    func local() async throws {
        let f = try fixture()
        let key = RecordKey("board", "b1")
        try await f.store.write { [store = f.store] db, record in
            try store.keepLocal([key], in: db)
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')")
            try record(FoundChange(record: key, operation: .create, fields: ["name": FieldDelta(old: nil, new: "A")]))
        }
        try await f.store.write { db, record in
            try db.execute(sql: "UPDATE board SET name = 'B'")
            try record(delta("b1", "A", "B"))
        }
        try await f.store.record([delta("b1", "B", "C")])
        #expect(try f.changes().isEmpty)
        try await f.store.release([key])
        #expect(try f.queue() == [#"create board b1 {"name":{"new":"B"}}"#])
    }
}
