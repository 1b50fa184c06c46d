import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// Names that a server gives, and that mean something to SQL.
@Suite("Names that mean something to SQL")
struct HostileNameTests {
    private static let names = [
        #"x" = 1; DROP TABLE sync_change; --"#, "id'", "rowid", "_rowid_", "oid", "_sync_state", "ID", "NAME",
        "closed\"", "name\u{0}", "", String(repeating: "n", count: 10_000),
    ]

    private func tables(_ f: Fixture) throws -> [String] {
        try f.rows("SELECT type, name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name").map {
            "\($0[0] as String) \($0[1] as String) \($0[2] as String)"
        }
    }

    @Test("SEC-06 fields of such names stand aside; no statement, table or row hears of them")
    func fields() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO board (id, name) VALUES ('mine', 'M')")
        let before = (try tables(f), try f.rows("SELECT rowid, id FROM board ORDER BY id"))
        var fields: [String: FieldValue] = ["name": "Board 2", "closed": true]
        for name in Self.names { fields[name] = .string("value of \(name.prefix(20))") }
        try await f.apply(record("board", "b1", 9, fields), record("board", "b9", 10, fields))
        #expect(try tables(f) == before.0)
        #expect(try f.rows("SELECT rowid, id FROM board WHERE id <> 'b9' ORDER BY id") == before.1)
        #expect(try f.rows("SELECT name, closed FROM board WHERE id = 'b1'") == [["name": "Board 2", "closed": 1]])
        for id in ["b1", "b9"] {
            let stored = try f.store.read { try StoredRecord.read($0, RecordKey("board", id)) }
            #expect(try #require(stored).extra.keys.sorted() == Self.names.sorted())
        }
        #expect(try f.changes().map(\.record.id) == ["mine"])
        // What is written then is captured as ever, and goes out without them.
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        #expect(try f.changes().last?.fields.keys.sorted() == ["name"])
        #expect(try f.changes().last?.record == RecordKey("board", "b1"))
        // A verdict's and a page's word over the edit, too.
        fields["name"] = "Theirs"
        try await f.apply(record("board", "b1", 11, fields))
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Mine")
        try await f.drain(from: 100)
        #expect(try tables(f) == before.0)
        #expect(try await f.store.integrityProblems().isEmpty)
        try await f.store.close()
        let again = try Fixture(file: f.file)
        #expect(try tables(again) == before.0)
        try await again.store.close()
    }

    @Test("SEC-06 a field “id” sets no row's id, and is not sent back as if it were the app's")
    func id() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let row = try f.rows("SELECT rowid, id FROM board")
        try await f.apply(record("board", "b1", 9, ["name": "B", "id": "other"]))
        #expect(try f.rows("SELECT rowid, id FROM board") == row)
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "B")
        #expect(try f.queue().isEmpty)
    }

    @Test("SEC-07 a record of an entity of such a name is held as unknown, and goes with its tombstone")
    func entities() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE board SET name = 'Mine'")
        let before = try tables(f)
        let names = [
            #"board"; DROP TABLE board; --"#, "board'", "sqlite_master", "sync_change", "sync_meta", "BOARD",
            String(repeating: "e", count: 10_000),
        ]
        let records = names.enumerated().map { record($1, "x\($0)", Int64($0 + 10), ["name": "N", "key": "format"]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 3, checkpoint: 20, epoch: Fixture.epoch))
        #expect(try tables(f) == before)
        let held = try await f.store.held()
        #expect(held.map(\.reason) == names.map { _ in .unknownEntity })
        #expect(Set(held.map(\.record.entity)) == Set(names))
        #expect(try f.text("SELECT name FROM board") == "Mine")
        #expect(try f.changes().count == 1)
        let gone = names.enumerated().map { record($1, "x\($0)", Int64($0 + 30), [:], .deleted) }
        _ = try await f.store.apply(PageSlice(records: gone, from: 20, checkpoint: 40, epoch: Fixture.epoch))
        #expect(try await f.store.held().isEmpty)
        #expect(try tables(f) == before)
        try f.sql("UPDATE board SET closed = 1")
        #expect(try f.changes().count == 2)
        #expect(try await f.store.integrityProblems().isEmpty)
    }
}
