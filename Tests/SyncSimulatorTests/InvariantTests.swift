import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What the checks take for right, and what for wrong, where that is a fine line.
@Suite struct InvariantTests {
    @Test("Seed 783: a row held for what is unsent under it needs neither a version nor a change; no other does")
    func heldForUnsent() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        try store.database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO board (id, name) VALUES ('b', 'B');
                    INSERT INTO list (id, idBoard, name) VALUES ('l', 'b', 'L');
                    DELETE FROM sync_change WHERE id = 'l';
                    INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'C');
                    """)
        }
        #expect(try found(store, schema).map(\.0) == ["I4"])
        try store.database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO sync_held (entity, id, version, reason, record) VALUES ('list', 'l', 0, 'unsent', '{}')
                    """)
        }
        #expect(try found(store, schema).isEmpty)
        try store.database.write { try $0.execute(sql: "UPDATE sync_held SET reason = 'parent'") }
        #expect(try found(store, schema).map(\.0) == ["I4"])
        try store.database.write { db in
            try db.execute(sql: "UPDATE sync_held SET reason = 'unsent'; DELETE FROM card; DELETE FROM sync_change")
        }
        #expect(try found(store, schema).map(\.1).contains { $0.contains("list l") })
        // Seed 26605: what was sent again after a loss was under it, and is elsewhere.
        #expect(try !found(store, schema, hasRestored: true).map(\.1).contains { $0.contains("list l") })
        try store.database.close()
    }

    @Test(
        "Seed 43481: what died under a root that is asked for since shows until the root that it stands under here has told it"
    )
    func diedUnderAnother() throws {
        let bench = try Bench()
        try bench.sql(
            """
            UPDATE sync_clock SET applying = 1;
            INSERT INTO board (id, name) VALUES ('a', 'A'), ('b', 'B');
            INSERT INTO list (id, idBoard, name) VALUES ('l', 'a', 'L');
            INSERT INTO sync_record (entity, id, version) VALUES ('board', 'a', 1), ('board', 'b', 2), ('list', 'l', 3);
            INSERT INTO sync_meta (key, value) VALUES ('epoch', 'e');
            UPDATE sync_clock SET applying = 0
            """)
        let server = [
            ServerRecord(key: RecordKey("board", "a"), version: 1, fields: ["name": "A"]),
            ServerRecord(key: RecordKey("board", "b"), version: 2, fields: ["name": "B"]),
            ServerRecord(key: RecordKey("list", "l"), version: 5, presence: .deleted, fields: ["idBoard": "b"]),
        ]
        func found(_ version: Int64) throws -> Bool {
            let scopes = #"{"asked":{"board:a":\#(version),"board:b":9}}"#
            try bench.sql("INSERT OR REPLACE INTO sync_meta (key, value) VALUES ('scopes', '\(scopes)')")
            return try bench.found(server).contains { $0.contains("list l, dead at 5, still shows") }
        }
        #expect(try !found(4))
        #expect(try found(5))
        try bench.close()
    }

    @Test("Seeds 7119, 72224: of a verdict that the device never took in, no line is owed")
    func givenUpBeforeItsVerdict() throws {
        let changes = (1...2).map { number in
            Change(
                id: "k-\(number)", sequence: Int64(number), record: RecordKey("board", "b\(number)"),
                operation: .delete,
                stamp: Stamp(milliseconds: 1, counter: 0))
        }
        let refusal = Verdict.rejected(Rejection(code: .forbidden, message: "no"))
        let answer = ExchangeAnswer(
            dataset: "d", epoch: "e", currentSyncVersion: 1, hasMore: false,
            results: changes.map { ChangeResult(changeID: $0.id, verdict: refusal) }, page: ArrayPage([]))
        let request = ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: changes)
        var memory = Memory()
        memory.heard(answer, of: request)
        memory.tookNothing(of: ["k-1"])
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        let sent = Dictionary(uniqueKeysWithValues: changes.map { ($0.id, $0) })
        let missing = try store.database.read { db in
            var parsed: [String: FieldValue] = [:]
            return try memory.missingLines(db, DeviceFacts(db, schema, &parsed), sent: { sent[$0] }, made: [])
        }
        #expect(missing == ["k-2: no event “setAside”"])
        try store.database.close()
    }

    @Test("Seed 27810: a verdict under a name that would mix two records up is none, and owes no line but its own")
    func underAnothersName() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        let change = Change(
            id: "k-1", sequence: 1, record: RecordKey("board", "b"), operation: .create, stamp: .zero, deviceID: "a")
        let verdict = Verdict.rejected(Rejection(code: .expired, message: "decided once"))
        let answer = ExchangeAnswer(
            dataset: "d", epoch: "e", currentSyncVersion: 1, hasMore: false,
            results: [ChangeResult(changeID: "k-1", verdict: verdict)], page: ArrayPage([]))
        func missing(_ code: String) throws -> [String] {
            try store.database.write { db in
                try db.execute(
                    sql: "DELETE FROM sync_event; INSERT INTO sync_event (key, kind, at, detail) VALUES (?, ?, 1, ?)",
                    arguments: ["k-1", "setAside", #"{"code":"\#(code)"}"#])
            }
            var memory = Memory()
            memory.heard(
                answer, of: ExchangeRequest(cycleID: "c", deviceID: "b", lastSyncVersion: 0, changes: [change]))
            return try store.database.read { db in
                var parsed: [String: FieldValue] = [:]
                return try memory.missingLines(
                    db, DeviceFacts(db, schema, &parsed), sent: { _ in change }, made: [])
            }
        }
        #expect(try missing("serverIDTaken") == [])
        #expect(try missing("forbidden") == ["k-1: no event “expired”"])
        try store.database.close()
    }

    @Test(
        "Seed 3100: a copy may send, under a key, what the device before it took back after the backup; and nothing that nobody wrote"
    )
    func takenBackAfterTheBackup() throws {
        let board = RecordKey("board", "b")
        func update(_ name: String, from device: String?) -> Change {
            Change(
                id: "k-3", sequence: 3, record: board, operation: .update,
                stamp: Stamp(milliseconds: 3, counter: 0),
                fields: [
                    "name": FieldDelta(old: "A", new: .string(name)), "closed": FieldDelta(old: true, new: false),
                ], deviceID: device)
        }
        var ledger = Ledger()
        for (sequence, field, value) in [(1, "name", "B"), (2, "name", "C"), (3, "closed", false)]
            as [(Int64, String, FieldValue)]
        {
            ledger.add(
                Ledger.Entry(
                    key: "k-\(sequence)", sequence: sequence, record: board, operation: .update, stamp: .zero,
                    values: [field: value], isOriginal: true))
        }
        func mayBe(_ name: String) -> Bool {
            // The one before took the second change back; the copy has it still.
            update(name, from: "a").mayBeCopy(of: update("B", from: nil)) {
                ledger.names($0, $1, in: board, upTo: 3)
            }
        }
        #expect(mayBe("B"))
        #expect(mayBe("C"))
        #expect(!mayBe("D"))
    }

    @Test(
        "Seed 2729: an edit that ended its create's refusal went into the create, and not into what was written behind it"
    )
    func editOfRefused() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        var book = Book(store: store, schema: schema)
        let create = try book.write("INSERT INTO board (id, name) VALUES ('b', 'B')")
        try store.database.write { try $0.execute(sql: "UPDATE sync_change SET state = 4") }
        let edit = try book.write("UPDATE board SET closed = 1")
        let later = try book.write("UPDATE board SET name = 'C'")
        #expect(try book.look().isEmpty)
        // The create's successor takes the edit in, and is done before anybody looks.
        book.ledger.add(
            Ledger.Entry(key: "next", sequence: 4, record: RecordKey("board", "b"), operation: .create, stamp: .zero))
        book.ledger.set(.succeeded(by: "next"), for: [create])
        try store.database.write { try $0.execute(sql: "DELETE FROM sync_change WHERE key <> ?", arguments: [later]) }
        #expect(try book.look(accepted: ["next"]).isEmpty)
        #expect(book.ledger.heir(of: edit) == "next")
        try store.database.close()
    }

    @Test("Seed 40567: an edit that went into a delete stays in it when that is taken back, and is not in its inverse")
    func editOfInverted() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        var book = Book(store: store, schema: schema)
        _ = try book.write("INSERT INTO board (id, name) VALUES ('b', 'B')")
        let edit = try book.write("UPDATE board SET name = 'C'")
        let delete = try book.write("DELETE FROM board")
        #expect(try book.look().isEmpty)
        // Nobody looks between the claim, which merges the two, and the inverse.
        book.ledger.add(
            Ledger.Entry(key: "back", sequence: 4, record: RecordKey("board", "b"), operation: .create, stamp: .zero))
        book.ledger.set(.undone, for: [delete])
        try store.database.write { try $0.execute(sql: "DELETE FROM sync_change WHERE key = ?", arguments: [edit]) }
        #expect(try book.look().isEmpty)
        #expect(book.ledger.heir(of: edit) == delete)
        try store.database.close()
    }

    @Test(
        "Seed 7906: a create that was done in another history, refused in this one and tried again takes its delete along"
    )
    func doneInAnotherHistory() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        var parsed: [String: FieldValue] = [:]
        let facts = try store.database.read { try DeviceFacts($0, schema, &parsed) }
        for (isTriedAgain, accepted, isGone) in [
            (false, ["k-1"], true), (true, ["k-1"], false), (true, ["k-1", "k-3"], true),
        ] {
            var ledger = Ledger()
            for (sequence, operation) in [(1, SyncCore.Operation.create), (2, .delete)] {
                ledger.add(
                    Ledger.Entry(
                        key: "k-\(sequence)", sequence: Int64(sequence), record: RecordKey("board", "b"),
                        operation: operation, stamp: .zero, isOriginal: true))
            }
            if isTriedAgain { ledger.set(.succeeded(by: "k-3"), for: ["k-1"]) }
            let lost = ledger.look(facts, accepted: Set(accepted), taken: [], refused: [])
            #expect(lost.map(\.key) == (isGone ? ["k-2"] : []))
        }
        try store.database.close()
    }

    @Test(
        "Seed 84516: a delete ends with the refused create that a backup has as an edit, which the create had gone into"
    )
    func createWithinAnEdit() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        var book = Book(store: store, schema: schema)
        let create = try book.write("INSERT INTO board (id, name) VALUES ('b', 'B')")
        let edit = try book.write("UPDATE board SET name = 'C'")
        try store.database.write {
            try $0.execute(sql: "DELETE FROM sync_change WHERE key = ?", arguments: [create])
            try $0.execute(sql: "UPDATE sync_change SET operation = 0, state = 4 WHERE key = ?", arguments: [edit])
        }
        book.ledger.restored([edit])
        #expect(try book.look().isEmpty)
        _ = try book.write("DELETE FROM board")
        // Both end at once, and the record is somebody else's by now.
        book.ledger.set(.cancelled, for: [edit])
        try store.database.write {
            try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b', 'Theirs')")
            try $0.execute(sql: "INSERT INTO sync_record (entity, id, version) VALUES ('board', 'b', 3)")
            try $0.execute(sql: "DELETE FROM sync_change")
        }
        #expect(try book.look().isEmpty)
        try store.database.close()
    }

    @Test("Seed 53407: what a unit's member that is tried again became is given up before it was ever sent")
    func givenUpUnsent() throws {
        let (folder, store, schema) = try fresh()
        defer { folder.remove() }
        var book = Book(store: store, schema: schema)
        _ = try book.write("INSERT INTO board (id, name) VALUES ('b', 'B')")
        try store.database.write { try $0.execute(sql: "DELETE FROM sync_change") }
        book.ledger = Ledger()
        let edit = try book.write("UPDATE board SET name = 'C'")
        #expect(try book.look().isEmpty)
        // Nobody looks between the retry of the unit and the app's giving up what the member waits for.
        try store.database.write { try $0.execute(sql: "UPDATE sync_change SET key = 'next', sequence = 9") }
        try book.ledger.noteQueue(book.facts())
        book.ledger.set(.discarded, for: ["next"])
        try store.database.write { try $0.execute(sql: "DELETE FROM sync_change") }
        #expect(try book.look().isEmpty)
        #expect(book.ledger.heir(of: edit) == "next")
        try store.database.close()
    }

    /// A ledger, and what it is told of what is written and found.
    private struct Book {
        let store: Store
        let schema: Schema
        var ledger = Ledger()

        /// Runs the SQL, and returns the key of the change that it made.
        mutating func write(_ sql: String) throws -> String {
            try store.database.write { try $0.execute(sql: sql) }
            var made = try #require(try store.database.read { try Ledger.changes($0, above: 0) }.last)
            made.isOriginal = true
            ledger.add(made)
            return made.key
        }

        mutating func look(accepted: Set<String> = []) throws -> [Ledger.Entry] {
            try ledger.look(facts(), accepted: accepted, taken: [], refused: [])
        }

        func facts() throws -> DeviceFacts {
            var parsed: [String: FieldValue] = [:]
            return try store.database.read { try DeviceFacts($0, schema, &parsed) }
        }
    }

    /// A store in a folder of its own, which is the caller's to remove.
    private func fresh() throws -> (folder: Folder, store: Store, schema: Schema) {
        let folder = try Folder()
        let schema = try Schema(SimulationSchema.entities)
        return (folder, try Store(path: folder.path + "/device.sqlite", schema: schema), schema)
    }

    private struct Folder {
        let path = NSTemporaryDirectory() + "invariants-\(UUID().uuidString)"

        init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

        func remove() {
            do { try FileManager.default.removeItem(atPath: path) } catch { Issue.record(error) }
        }
    }

    private func found(_ store: Store, _ schema: Schema, hasRestored: Bool = false) throws -> [(String, String)] {
        var parsed: [String: FieldValue] = [:]
        let facts = try store.database.read { try DeviceFacts($0, schema, &parsed) }
        return Invariants(
            schema: schema, device: 0, facts: facts, ledger: Ledger(), lost: [], refused: [], accepted: [], server: [],
            serverEpoch: "e", hasRestored: hasRestored
        ).check()
    }
}
