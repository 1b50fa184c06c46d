import GRDB
import GRDBSQLite
@testable import Storage
import SyncCore
import Testing

@Suite("Applying slices")
struct ApplyTests {
    @Test("A slice and its checkpoint stand together; what the engine writes is not captured")
    func slice() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        #expect(try f.text("SELECT name FROM card WHERE id = 'c1'") == "Card")
        #expect(try await f.store.position().checkpoint == 3)
        #expect(try f.queue().isEmpty)
        #expect(try f.int("SELECT applying FROM sync_clock") == 0)
    }

    @Test("DL-22 edits between slices, and one that was rolled back: each slice knows what is unsent by then")
    func editsBetweenSlices() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "c2", 4, ["name": "Two", "idList": "l1"]))
        var version: Int64 = 4
        for round in 0..<5 {
            let edited = round % 2 == 0 ? "c1" : "c2"
            try f.sql("UPDATE card SET name = 'mine \(round)' WHERE id = ?", [edited])
            for _ in 0..<2 {
                version += 2
                try await f.apply(
                    record("card", "c1", version - 1, ["name": "theirs", "idList": "l1"]),
                    record("card", "c2", version, ["name": "theirs", "idList": "l1"]))
                #expect(try f.text("SELECT name FROM card WHERE id = '\(edited)'") == "mine \(round)")
                #expect(try f.text("SELECT name FROM card WHERE id <> '\(edited)'") == "theirs")
            }
            try await f.drain(from: version + 100)
            version += 200
        }
        // A slice that fails has looked at the queue; what it remembers goes with it.
        try f.sql(
            "CREATE TRIGGER boom BEFORE UPDATE ON sync_meta WHEN NEW.key = 'checkpoint' BEGIN SELECT RAISE(ABORT, 'x'); END"
        )
        try f.sql("UPDATE card SET name = 'mine' WHERE id = 'c1'")
        await #expect(throws: StoreFailure.self) {
            try await f.apply(record("card", "c2", version + 1, ["name": "new", "idList": "l1"]))
        }
        try f.sql("DROP TRIGGER boom")
        try await f.drain(from: version + 100)
        try f.sql("UPDATE card SET name = 'mine' WHERE id = 'c2'")
        try await f.apply(record("card", "c2", version + 200, ["name": "new", "idList": "l1"]))
        #expect(try f.text("SELECT name FROM card WHERE id = 'c2'") == "mine")
    }

    @Test("A slice leaves the app's prepared statements as they are")
    func keepsStatements() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        func compiled() throws -> Int32 {
            try f.store.database.write { db in
                let statement = try db.cachedStatement(sql: "UPDATE card SET name = 'x' WHERE id = 'c1'")
                try statement.execute()
                return sqlite3_stmt_status(statement.sqliteStatement, SQLITE_STMTSTATUS_REPREPARE, 0)
            }
        }
        let before = try compiled()
        for version in 4..<8 {
            try await f.apply(record("list", "l1", Int64(version), ["name": "L", "idBoard": "b1"]))
        }
        #expect(try compiled() == before)
    }

    @Test(
        "Rows of several tables and shapes in one slice: each stands as the server says, and what breaks one holds it alone"
    )
    func mixedSlice() async throws {
        let f = try Fixture()
        try f.sql(
            "CREATE TRIGGER no_seven BEFORE INSERT ON card WHEN NEW.pos = 7 BEGIN SELECT RAISE(ABORT, 'no seven'); END")
        var records: [ServerRecord] = []
        var version: Int64 = 0
        func add(_ entity: String, _ id: String, _ fields: [String: FieldValue]) {
            version += 1
            records.append(record(entity, id, version, fields))
        }
        add("board", "b0", ["name": "B"])
        for n in 0..<60 {
            if n % 20 == 0 { add("list", "l\(n / 20)", ["name": "L", "idBoard": "b0", "pos": 1.5]) }
            add(
                "card", "c\(n)",
                ["name": "C", "idList": .string("l\(n / 20)"), "pos": .int(Int64(n)), "closed": .bool(n % 2 == 0)])
            if n % 7 == 0 { add("card", "s\(n)", ["name": "short", "idList": .string("l\(n / 20)")]) }
        }
        add("card", "c1", ["name": "later", "idList": "l0"])
        add("card", "wrong", ["name": 5, "idList": "l0"])
        add("card", "orphan", ["name": "O", "idList": "l9"])
        let slice = PageSlice(records: records, from: 0, checkpoint: version, epoch: Fixture.epoch)
        let report = try await f.store.apply(slice)
        #expect(report.held == 3)
        #expect(try f.int("SELECT count(*) FROM card") == 59 + 9)
        #expect(try f.text("SELECT name FROM card WHERE id = 'c1'") == "later")
        #expect(try f.int("SELECT pos FROM card WHERE id = 'c1'") == 1)
        #expect(
            try f.int(
                "SELECT count(*) FROM card WHERE closed = (CAST(substr(id, 2) AS INTEGER) % 2 = 0) AND id GLOB 'c*'")
                == 59)
        let held = try await f.store.held().map { "\($0.record.id) \($0.reason.rawValue)" }.sorted()
        #expect(held == ["c7 constraint", "orphan parent", "wrong type"])
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == Int(version) - 2)
        #expect(try f.int("SELECT count(*) FROM sync_record") == 1 + 3 + 59 + 9)
        #expect(try await f.store.integrityProblems().isEmpty)
    }

    @Test(
        "Rows whose ids come in order go by one statement, others by a few; what breaks one holds it alone",
        arguments: [true, false])
    func order(ascending: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let first: Int64 = 4
        try f.sql(
            "CREATE TRIGGER no_21 BEFORE INSERT ON card WHEN NEW.pos = 21 BEGIN SELECT RAISE(ABORT, 'no 21'); END")
        let records = (0..<40).map { n in
            record(
                "card", "c\(100 + (ascending ? n : 39 - n))", first + Int64(n),
                ["name": "C", "idList": "l1", "pos": .int(Int64(n))])
        }
        let slice = PageSlice(records: records, from: first - 1, checkpoint: first + 39, epoch: Fixture.epoch)
        #expect(try await f.store.apply(slice).held == 1)
        #expect(try await f.store.held().map(\.record.id) == [records[21].key.id])
        let right = """
            SELECT count(*) FROM card JOIN sync_record AS r ON r.entity = 'card' AND r.id = card.id
            WHERE r.version = card.pos + \(first)
            """
        #expect(try f.int(right) == 39)
        #expect(try f.int("SELECT count(*) FROM card") == 1 + 39)
    }

    @Test("DL-05 a slice that fails leaves rows and checkpoint as they were")
    func failedSlice() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql(
            "CREATE TRIGGER boom BEFORE UPDATE ON sync_meta WHEN NEW.key = 'checkpoint' BEGIN SELECT RAISE(ABORT, 'x'); END"
        )
        await #expect(throws: StoreFailure.self) {
            try await f.apply(record("card", "c1", 9, ["name": "New", "idList": "l1"]))
        }
        #expect(try f.text("SELECT name FROM card") == "Card")
        #expect(try await f.store.position().checkpoint == 3)
        #expect(try f.int("SELECT version FROM sync_record WHERE entity = 'card'") == 3)
    }

    @Test("A page asked from above the present checkpoint, or of another epoch, is dropped")
    func dropped() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let slice = PageSlice(records: [record("board", "b2", 9, ["name": "X"])], from: 4, checkpoint: 9, epoch: "e-1")
        #expect(try await f.store.apply(slice).wasDropped)
        var other = slice
        other.from = 3
        other.epoch = "e-2"
        #expect(try await f.store.apply(other).wasDropped)
        #expect(try f.int("SELECT count(*) FROM board") == 1)
        #expect(try await f.store.position().checkpoint == 3)
    }

    @Test("A record below the version held is left out; the same version is taken")
    func versions() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b1", 0, ["name": "Old"]))
        #expect(try f.text("SELECT name FROM board") == "Board")
        try await f.apply(record("board", "b1", 1, ["name": "Same"]))
        #expect(try f.text("SELECT name FROM board") == "Same")
    }

    @Test("DL-01 a page over an unsent edit: the device reads its own value, the server's is the base, once a conflict")
    func unsentEdit() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let page = record("card", "c1", 9, ["name": "Theirs", "idList": "l1", "pos": 2.0])
        #expect(try await f.apply(page).conflicts == 1)
        try await f.apply(page)
        #expect(try f.text("SELECT name || pos FROM card") == "Mine2.0")
        let entries = try await f.store.conflicts(limit: 10)
        #expect(entries.count == 1)
        #expect(entries[0].mine == "Mine" && entries[0].theirs == "Theirs" && entries[0].kind == "replayed")
        let base = try await f.store.database.read { try StoredRecord.read($0, RecordKey("card", "c1"))?.base }
        #expect(base?.fields["name"] == "Theirs")
        #expect(try f.changes().count == 1)
    }

    @Test("DL-16 the echo of an own write is no conflict and no second change")
    func echo() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try f.sql("UPDATE card SET name = 'Later' WHERE id = 'c1'")
        #expect(try await f.apply(record("card", "c1", 9, ["name": "Mine", "idList": "l1"])).conflicts == 0)
        #expect(try f.text("SELECT name FROM card") == "Later")
        #expect(try f.changes().count == 2)
    }

    @Test("An unsent sum is added to the server's new value")
    func sum() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 2 WHERE id = 'c1'")
        let report = try await f.apply(record("card", "c1", 9, ["votes": 10, "idList": "l1"]))
        #expect(report.conflicts == 0)
        #expect(try f.int("SELECT votes FROM card") == 12)
    }

    @Test("DL-02 a page for a row that was deleted here: it stays hidden, and the delete stays queued")
    func deletedHere() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card")
        try await f.apply(record("card", "c1", 9, ["name": "Theirs", "idList": "l1"]))
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        #expect(try f.changes().map(\.operation) == [.delete])
    }

    @Test("A tombstone takes the row and what is under it, and records nothing")
    func tombstone() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let report = try await f.apply(record("board", "b1", 9, [:], .deleted))
        #expect(report.deleted == 1)
        #expect(try f.int("SELECT (SELECT count(*) FROM board) + (SELECT count(*) FROM card)") == 0)
        #expect(try f.queue().isEmpty)
        try await f.apply(record("list", "l1", 10, [:], .deleted), record("card", "c1", 11, [:], .deleted))
        #expect(try await f.store.position().held == 0)
    }

    @Test("A row with unsent changes on it, or under it, is not taken away by a tombstone before they are decided")
    func tombstoneOverUnsent() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try await f.apply(
            record("board", "b1", 9, [:], .deleted), record("list", "l1", 10, [:], .deleted),
            record("card", "c1", 11, [:], .deleted))
        #expect(try f.text("SELECT name FROM card") == "Mine")
        #expect(try f.int("SELECT count(*) FROM board") == 1)
        #expect(try await f.store.held().map(\.reason) == [.unsent, .unsent])
    }

    @Test("DAT-22 a text with U+0000 is held, visibly, and not cut; what else the page brings is applied")
    func cutText() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = 9 WHERE id = 'c1'")
        try await f.apply(
            record("card", "c1", 4, ["name": "x\0y", "idList": "l1", "pos": 1.0]),
            record("card", "c2", 5, ["name": "x\0y", "idList": "l1", "pos": 1.0]),
            record("card", "c3", 6, ["name": "Fine", "idList": "l1", "pos": 1.0]))
        #expect(try await f.store.held().map(\.reason) == [.type, .type])
        #expect(try f.card("name") == "Card")
        #expect(try f.hasCard("c3"))
        try await f.apply(
            record("card", "c1", 7, ["name": "xy", "idList": "l1", "pos": 1.0]), record("card", "c2", 8, [:], .deleted))
        #expect(try await f.store.held().isEmpty)
        #expect(try f.card("name") == "xy")
    }

    @Test("DAT-18 an unknown field is kept, given back untouched, and appears after the upgrade")
    func unknownField() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "B", "colour": "red"]))
        try f.sql("UPDATE board SET name = 'Mine'")
        try await f.apply(record("board", "b1", 2, ["name": "B", "colour": "blue"]))
        #expect(try f.text("SELECT extra FROM sync_record") == #"{"colour":"blue"}"#)
        try await f.store.close()
        let newer = try Schema([
            EntitySchema("board", version: 2, fields: [.text("name"), .boolean("closed"), .text("colour")])
        ])
        let g = try Fixture(newer, file: f.file)
        #expect(try g.text("SELECT colour || name FROM board") == "blueMine")
        #expect(try g.text("SELECT extra FROM sync_record") == nil)
        #expect(try g.changes().count == 1)
    }

    @Test("DAT-18, seed 72648: the same for a record that is deleted here, and comes back as the delete is refused")
    func unknownFieldOfDeleted() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "B", "colour": "red"]))
        try f.sql("DELETE FROM board")
        try await f.store.close()
        let newer = try Schema([
            EntitySchema("board", version: 2, fields: [.text("name"), .boolean("closed"), .text("colour")])
        ])
        let g = try Fixture(newer, file: f.file)
        let claim = try await g.claim()
        #expect(claim.told == ["delete board b1"])
        try await g.settle((claim.keys[0], .refused("forbidden")))
        #expect(try g.text("SELECT colour || name FROM board") == "redB")
        #expect(try g.text("SELECT base FROM sync_record") == nil)
    }

    @Test(
        "DAT-18, seed 91572: what was made anew has nothing of the life before, whatever was kept of that",
        arguments: [false, true])
    func unknownFieldOfMadeAnew(isDone: Bool) async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "B", "colour": "red"]))
        try f.sql("DELETE FROM board")
        if isDone {
            let delete = try await f.claim()
            try await f.settle((delete.keys[0], .applied(2)))
        }
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'Anew')")
        if isDone {
            let create = try await f.claim()
            try await f.settle((create.keys[0], .applied(3)))
        }
        try await f.store.close()
        let newer = try Schema([
            EntitySchema("board", version: 2, fields: [.text("name"), .boolean("closed"), .text("colour")])
        ])
        let g = try Fixture(newer, file: f.file)
        #expect(try g.text("SELECT name FROM board WHERE colour IS NULL") == "Anew")
        guard !isDone else { return }
        // Taken back, both of them, the record is as it was, and with the field.
        for key in try g.changes().map(\.id) { _ = try await g.store.cancel(key) }
        #expect(try g.text("SELECT colour || name FROM board") == "redB")
    }

    @Test("DAT-19 records of an unknown entity are held with one event, and come after the upgrade")
    func unknownEntity() async throws {
        let f = try Fixture(Schema([EntitySchema("board", fields: [.text("name")])]))
        try await f.apply(record("label", "x1", 1, ["name": "L"]), record("label", "x2", 2, ["name": "M"]))
        #expect(try await f.store.held().count == 2)
        let kinds = try await f.store.events().map(\.kind)
        #expect(kinds == ["unknownEntity"])
        try await f.store.close()
        let g = try Fixture(
            Schema([EntitySchema("board", fields: [.text("name")]), EntitySchema("label", fields: [.text("name")])]),
            file: f.file)
        #expect(try g.int("SELECT count(*) FROM label") == 2)
        #expect(try await g.store.held().isEmpty)
    }

    @Test("DAT-20, DAT-22, DAT-25 what has a wrong type or breaks a constraint is held; the rest is applied")
    func quarantine() async throws {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write { db in
            try db.execute(
                sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT UNIQUE CHECK (name <> 'bad'), n INTEGER)")
        }
        try queue.close()
        let f = try Fixture(Schema([EntitySchema("board", fields: [.text("name"), .integer("n")])]), file: file)
        let report = try await f.apply(
            record("board", "1", 1, ["name": "A"]), record("board", "2", 2, ["name": "A"]),
            record("board", "3", 3, ["name": "bad"]), record("board", "4", 4, ["name": 5]),
            record("board", "5", 5, ["name": "E", "n": 1]))
        #expect(report.applied == 2)
        #expect(report.held == 3)
        #expect(try await f.store.held().map(\.reason) == [.constraint, .constraint, .type])
        #expect(try await f.store.events().map(\.kind) == ["quarantined", "quarantined", "quarantined"])
        #expect(try await f.store.position().checkpoint == 5)
        #expect(try f.int("SELECT count(*) FROM sync_record") == 2)
        try await f.apply(record("board", "1", 6, ["name": "Z"]))
        #expect(try await f.store.held().count == 2)
        #expect(try f.text("SELECT name FROM board WHERE id = '2'") == "A")
    }

    @Test("DAT-21 a field that the server's record lacks keeps its value")
    func missingField() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "c1", 9, ["name": "New", "idList": "l1"]))
        #expect(try f.text("SELECT name || desc FROM card") == "Newtext")
        try await f.apply(record("card", "c1", 10, ["desc": nil, "idList": "l1"]))
        #expect(try f.text("SELECT desc FROM card") == nil)
    }

    @Test("DAT-21 one event tells of a field that records lack, however many pages; it is not sent for ever")
    func missingFieldTold() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET desc = 'mine' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        for version in 10..<13 {
            try await f.apply(
                record(
                    "card", "c1", Int64(version),
                    ["name": .string("New \(version)"), "idList": "l1", "pos": 1.0, "votes": 1]),
                record("card", "c2", Int64(version), ["name": "Two", "idList": "l1"]))
            #expect(try f.text("SELECT name || desc FROM card WHERE id = 'c1'") == "New \(version)mine")
            #expect(try await f.claim().changes.isEmpty)
            let events = try await f.store.events()
            #expect(events.map(\.kind) == ["missingField"])
            #expect(events.first?.record == RecordKey("card", "c1") && events.first?.detail == "desc")
        }
        try await f.store.close()
        let again = try Fixture(file: f.file)
        try await again.apply(record("card", "c1", 20, ["name": "Newer", "idList": "l1"]))
        #expect(try again.text("SELECT name || desc FROM card WHERE id = 'c1'") == "Newermine")
        #expect(try await again.claim().changes.isEmpty)
        // The other fields that this page lacks are others; of the first nothing is told again.
        let told = try await again.store.events().filter { $0.kind == "missingField" }.compactMap(\.detail)
        #expect(told.sorted() == ["desc", "pos", "votes"])
        // The app's next word about it goes out as any other, over what the server does not say.
        try again.sql("UPDATE card SET desc = 'later' WHERE id = 'c1'")
        #expect(try await again.claim().changes.map(\.change.fields.keys.first) == ["desc"])
    }

    @Test("DL-13 a row that left all scopes goes without a delete; its unsent changes are set aside")
    func gone() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try await f.apply(record("board", "b1", 9, [:], .gone))
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        #expect(try f.int("SELECT state FROM sync_change") == 4)
        #expect(try f.text("SELECT reason ->> 'code' FROM sync_failure") == "gone")
    }

    @Test("The clock moves past the answer's stamp, so that an edit after seeing a value beats it")
    func stamp() async throws {
        let f = try Fixture()
        let seen = Stamp(milliseconds: 2_000_000, counter: 7)
        _ = try await f.store.apply(PageSlice(records: [], from: 0, checkpoint: 1, epoch: "e-1", stamp: seen))
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        #expect(try f.changes()[0].stamp == seen.successor)
    }
}
