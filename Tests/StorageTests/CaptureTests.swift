import GRDB
import Storage
import SyncCore
import Testing

@Suite("Capture by triggers")
struct CaptureTests {
    @Test("A write of the app's is recorded with old and new values, key, sequence and stamp")
    func write() throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("UPDATE board SET name = 'B', closed = 1 WHERE id = 'b1'")
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        #expect(
            try f.queue() == [
                #"create board b1 {"name":{"new":"A"}}"#,
                #"update board b1 {"name":{"old":"A","new":"B"},"closed":{"old":null,"new":true}}"#,
                #"delete board b1 {"name":{"old":"B"},"closed":{"old":true}}"#,
            ])
        let rows = try f.rows("SELECT * FROM sync_change ORDER BY position")
        #expect(rows.map { $0["sequence"] as Int64 } == [1, 2, 3])
        #expect(Set(rows.map { $0["key"] as String }).count == 3)
        #expect(rows.allSatisfy { ($0["key"] as String).utf8.count == 36 })
        let stamps = rows.map { $0["stamp"] as Int64 }
        let first: Int64 = 1_000_000 << 16
        #expect(stamps == [first, first + 1, first + 2])
        #expect(rows.allSatisfy { $0["madeAt"] as Int64 == 1_000_000 })
        #expect(try f.queued() == 3)
    }

    @Test("DAT-27 an update that changes nothing records nothing")
    func noOp() throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("UPDATE board SET name = 'A', closed = NULL WHERE id = 'b1'")
        try f.sql("UPDATE board SET closed = closed")
        #expect(try f.int("SELECT count(*) FROM sync_change") == 1)
    }

    @Test("A letter's case is a difference, whatever the column's collation says")
    func collation() throws {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT COLLATE NOCASE, closed BOOLEAN)")
        }
        try queue.close()
        let f = try Fixture(Schema([EntitySchema("board", fields: [.text("name"), .boolean("closed")])]), file: file)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'a')")
        try f.sql("UPDATE board SET name = 'A' WHERE id = 'b1'")
        #expect(try f.int("SELECT count(*) FROM sync_change") == 2)
    }

    @Test("A cascade is captured, children first")
    func cascade() throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        try f.sql("INSERT INTO card (id, name, idList) VALUES ('c1', 'C', 'l1')")
        try f.sql("DELETE FROM board")
        #expect(
            try f.rows("SELECT id FROM sync_change WHERE operation = 2").map { $0[0] as String } == ["c1", "l1", "b1"])
    }

    @Test("INSERT OR REPLACE of a row is an update of what differs, and takes its children along")
    func replace() throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        try f.sql("INSERT OR REPLACE INTO board (id, name, closed) VALUES ('b1', 'A', 1)")
        #expect(
            try f.queue().suffix(2) == [
                #"delete list l1 {"name":{"old":"L"},"idBoard":{"old":"b1"},"pos":{"old":null}}"#,
                #"update board b1 {"closed":{"new":true,"old":null}}"#,
            ])
        try f.sql("INSERT OR REPLACE INTO board (id, name, closed) VALUES ('b1', 'A', 1)")
        #expect(try f.int("SELECT count(*) FROM sync_change") == 4)
        #expect(try f.queued() == 4)
    }

    @Test("What an upsert or INSERT OR IGNORE left behind means nothing to a later insert")
    func staleReplacement() throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT OR IGNORE INTO board (id, name) VALUES ('b1', 'X')")
        try f.sql("INSERT INTO board (id, name) VALUES ('b2', 'B')")
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'Y') ON CONFLICT (id) DO UPDATE SET name = 'Y'")
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'Z')")
        let kinds = try f.rows("SELECT operation, id FROM sync_change ORDER BY position").map {
            "\($0[0] as Int) \($0[1] as String)"
        }
        #expect(kinds == ["0 b1", "0 b2", "1 b1", "2 b1", "0 b1"])
    }

    @Test("A row that REPLACE took away by another unique column is a delete")
    func replaceByOtherColumn() throws {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT UNIQUE, closed BOOLEAN)")
        }
        try queue.close()
        let f = try Fixture(Schema([EntitySchema("board", fields: [.text("name"), .boolean("closed")])]), file: file)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B')")
        try f.sql("INSERT OR REPLACE INTO board (id, name) VALUES ('b2', 'A')")
        #expect(
            try f.queue().suffix(2) == [
                #"delete board b1 {"name":{"old":"A"},"closed":{"old":null}}"#,
                #"update board b2 {"name":{"new":"A","old":"B"}}"#,
            ])
    }

    @Test("Another id is another record: the old one is deleted, a new one made")
    func rename() throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("UPDATE board SET id = 'b2', name = 'B'")
        #expect(
            try f.queue().suffix(2) == [
                #"delete board b1 {"name":{"old":"A"},"closed":{"old":null}}"#,
                #"create board b2 {"name":{"new":"B"}}"#,
            ])
    }

    @Test(
        "Doubles, integers, bytes and JSON come back exactly as they were written",
        arguments: [0.1 + 0.2, 1e300, -0.0, 5, 1.0 / 3, .leastNonzeroMagnitude, .greatestFiniteMagnitude])
    func exactValues(number: Double) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql(
            "UPDATE card SET pos = ?, votes = ?, cover = x'00ff10', labels = '[ 1, {\"a\":\"é\"}]', name = ? WHERE id = 'c1'",
            [number, Int64.max, "a\"\\\u{1}\n€"])
        let change = try #require(f.changes().first)
        #expect(change.fields["pos"]?.new == .double(number))
        #expect(change.fields["votes"]?.new == .int(.max))
        #expect(change.fields["votes"]?.rule == .sum)
        #expect(change.fields["cover"]?.new == .data([0, 255, 16]))
        #expect(change.fields["labels"]?.new == [1, ["a": "é"]])
        #expect(change.fields["name"]?.new == .string("a\"\\\u{1}\n€"))
    }

    @Test(
        "A value that the declared kind cannot hold is refused at the write, which leaves nothing behind",
        arguments: [
            "UPDATE card SET pos = 9e999", "UPDATE card SET name = x'00'", "UPDATE card SET votes = 'many'",
            "UPDATE card SET labels = '{'", "UPDATE card SET cover = 'text'", "UPDATE board SET name = NULL",
            "INSERT INTO board (id, name) VALUES ('a b', 'A')", "INSERT INTO board (id, name) VALUES ('', 'A')",
        ])
    func refusedValues(sql: String) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        #expect(throws: DatabaseError.self) { try f.sql(sql) }
        #expect(try f.int("SELECT count(*) FROM sync_change") == 0)
        #expect(try f.int("SELECT count(*) FROM board") == 1)
    }

    @Test("A throw inside write leaves nothing behind; a unit and an intent stand with its changes")
    func writeInStore() async throws {
        let f = try Fixture()
        await #expect(throws: StoreFailure.self) {
            try await f.store.write(unit: true) { db in
                try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')")
                throw StoreFailure(kind: .invalid, message: "no")
            }
        }
        #expect(try f.int("SELECT count(*) FROM board") == 0)
        try await f.store.write(unit: true, intent: "addBoard") { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B')")
        }
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'C')")
        let rows = try f.rows("SELECT \"unit\", intent FROM sync_change ORDER BY position")
        let units = rows.map { $0[0] as String? }
        #expect(units[0] != nil && units[0] == units[1] && units[2] == nil)
        #expect(rows.map { $0[1] as String? } == ["addBoard", "addBoard", nil])
    }

    @Test("A unit of more than 100 changes is refused as a whole")
    func largeUnit() async throws {
        let f = try Fixture()
        let failure = await #expect(throws: StoreFailure.self) {
            try await f.store.write(unit: true) { db in
                for n in 0...100 {
                    try db.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'A')", arguments: ["b\(n)"])
                }
            }
        }
        #expect(failure?.kind == .invalid)
        #expect(try f.int("SELECT count(*) FROM board") == 0)
        #expect(try f.int("SELECT count(*) FROM sync_change") == 0)
    }

    @Test(
        "An entity with explicit changes: the row and its change in one transaction; a write that passes by is reported"
    )
    func explicit() async throws {
        let f = try Fixture(Schema([EntitySchema("note", capture: .explicit, fields: [.text("text")])]))
        let key = RecordKey("note", "n1")
        let create = FoundChange(
            record: key, operation: .create, fields: ["text": FieldDelta(old: nil, new: "A")])
        try await f.store.write(intent: "jot") { db, record in
            try db.execute(sql: "INSERT INTO note VALUES ('n1', 'A')")
            try record(create)
        }
        #expect(try f.changes().map(\.intent) == ["jot"])
        #expect(try await f.store.events().isEmpty)
        try f.sql("UPDATE note SET text = 'B'")
        #expect(try f.changes().count == 1)
        #expect(try await f.store.events().map(\.kind) == ["passedBy"])
        await #expect(throws: StoreFailure.self) {
            let bad = FoundChange(
                record: key, operation: .update, fields: ["text": FieldDelta(old: "B", new: .double(.nan))])
            try await f.store.write { db, record in
                try db.execute(sql: "UPDATE note SET text = 'C'")
                try record(bad)
            }
        }
        #expect(try f.text("SELECT text FROM note") == "B")
        let next = try await f.store.apply(
            PageSlice(records: [record("note", "n1", 3, ["text": "S"])], from: 0, checkpoint: 3, epoch: "e-1"))
        #expect(next.applied == 1)
        #expect(try f.text("SELECT text FROM note") == "A")
    }

    @Test("A create leaves out what has no value; a row that was replaced by less is cleared field by field")
    func nulls() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        try f.sql("INSERT INTO card (id, idList, desc, votes) VALUES ('c1', 'l1', 'text', 3)")
        #expect(
            try f.queue().last
                == #"create card c1 {"desc":{"new":"text","rule":"check"},"idList":{"new":"l1"},"votes":{"new":3,"rule":"sum"}}"#
        )
        let create = try await f.claim().changes.last?.change
        #expect(create.map { Set($0.fields.keys) } == ["desc", "idList", "votes"])
        try f.sql("INSERT OR REPLACE INTO card (id, idList) VALUES ('c1', 'l1')")
        let replaced = try #require(try f.changes().last)
        #expect(replaced.operation == .update)
        #expect(
            replaced.fields == [
                "desc": FieldDelta(old: "text", new: .null, rule: .check),
                "votes": FieldDelta(old: 3, new: .null, rule: .sum),
            ])
        // A field that was cleared again before the create went out is told, with its own time.
        try f.sql("INSERT INTO board (id, name, closed) VALUES ('b2', 'B', 1)")
        try f.sql("UPDATE board SET closed = NULL WHERE id = 'b2'")
        let merged = try await f.claim().changes.last?.change
        #expect(merged?.operation == .create)
        #expect(merged?.fields["closed"]?.new == .null)
        #expect(merged?.fields["closed"]?.stamp != nil)
    }

    @Test("A value nested deeper than a request can carry is refused at the write; one level less is taken")
    func depth() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        @Sendable func nested(_ levels: Int) -> String {
            String(repeating: "{\"a.b[c\":[", count: levels / 2) + "1" + String(repeating: "]}", count: levels / 2)
        }
        let list = "[" + Array(repeating: "[[1]]", count: 100).joined(separator: ",") + "]"
        for taken in [list, nested(58), "[\(nested(58))]"] {
            try f.sql("UPDATE card SET labels = ?", [taken])
            #expect(try f.text("SELECT labels FROM card") == taken)
        }
        let failure = await #expect(throws: StoreFailure.self) {
            try await f.store.write { try $0.execute(sql: "UPDATE card SET labels = ?", arguments: [nested(60)]) }
        }
        #expect(failure?.kind == .invalid)
        #expect(failure?.message.contains("deeper than 59") == true)
        #expect(throws: DatabaseError.self) {
            try f.sql("INSERT INTO card (id, idList, labels) VALUES ('c9', 'l1', ?)", [nested(60)])
        }
        var value: FieldValue = 1
        for _ in 0..<60 { value = [value] }
        let found = FoundChange(
            record: RecordKey("card", "c1"), operation: .update, fields: ["labels": FieldDelta(old: nil, new: value)])
        await #expect(throws: StoreFailure.self) { try await f.store.record([found]) }
        #expect(try f.changes().count == 3)
    }

    @Test("An edit from one Unicode form of a letter to the other is an edit")
    func unicode() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let (one, two) = ("caf\u{e9}", "cafe\u{301}")
        try f.sql("UPDATE card SET name = ?", [one])
        try f.sql("UPDATE card SET name = ?", [two])
        let claim = try await f.claim()
        #expect(claim.changes.count == 1)
        guard case .string(let sent)? = claim.changes.first?.change.fields["name"]?.new else {
            Issue.record("no text")
            return
        }
        #expect(Array(sent.utf8) == Array(two.utf8))
        // The server has the other form: that is another value.
        try await f.settle((claim.keys[0], .merged(record("card", "c1", 9, ["name": .string(one)]))))
        #expect(try f.card("name").map { Array($0.utf8) } == Array(one.utf8))
        #expect(try await f.store.conflicts().count == 1)
    }
}
