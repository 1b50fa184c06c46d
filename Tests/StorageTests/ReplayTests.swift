import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// What a page brings of records with unsent changes.
@Suite("Unsent changes on top of a page")
struct ReplayTests {
    /// Cards that were edited in each of several ways; their ids.
    private func edit(_ f: Fixture, _ chance: inout SeededGenerator) throws -> [String] {
        var ids: [String] = []
        for n in 0..<40 {
            let id = "e\(n)"
            ids.append(id)
            let edits = [
                "UPDATE card SET name = 'mine' WHERE id = ?",
                "UPDATE card SET votes = coalesce(votes, 0) + 2 WHERE id = ?",
                "UPDATE card SET name = NULL, pos = 7.5 WHERE id = ?", "UPDATE card SET desc = 'mine' WHERE id = ?",
                "UPDATE card SET labels = '[\"x\"]' WHERE id = ?", "UPDATE card SET idList = 'l2' WHERE id = ?",
                "DELETE FROM card WHERE id = ?", "UPDATE card SET closed = 1 WHERE id = ?",
                "INSERT OR IGNORE INTO card (id, name, idList) VALUES (?, 'again', 'l1')",
            ]
            for _ in 0...Int.random(in: 0...3, using: &chance) {
                try f.sql(edits.randomElement(using: &chance) ?? edits[0], [id])
            }
        }
        return ids
    }

    private func server(_ id: String, _ version: Int64, _ chance: inout SeededGenerator) -> ServerRecord {
        var fields: [String: FieldValue] = [
            "name": .string("theirs \(version)"), "desc": .string("theirs \(version)"), "idList": "l1", "pos": 2.5,
            "closed": false, "due": .null, "votes": .int(version), "labels": ["a", "b"], "cover": .null,
            "idTwin": .null,
        ]
        for name in fields.keys.sorted() where Int.random(in: 0..<12, using: &chance) == 0 { fields[name] = nil }
        switch Int.random(in: 0..<14, using: &chance) {
        case 0: fields["idList"] = "l9"
        case 1: fields["votes"] = "many"
        case 2: fields["newer"] = ["kept": true]
        case 3: return record("card", id, version, [:], .deleted)
        default: break
        }
        return record("card", id, version, fields)
    }

    /// Everything that a slice leaves, but for versions and times.
    private func state(_ f: Fixture) throws -> [String] {
        let all = [
            "SELECT * FROM card ORDER BY id",
            "SELECT entity, id, base IS NULL, extra FROM sync_record ORDER BY entity, id",
            "SELECT entity, id, reason, detail, waitsID, record FROM sync_held ORDER BY entity, id",
            "SELECT key, field, mine, theirs, winner, rule, kind FROM sync_conflict ORDER BY key, field",
        ]
        let bases = try f.rows("SELECT id FROM sync_record WHERE entity = 'card' AND base IS NOT NULL ORDER BY id")
            .map { row in
                let key = RecordKey("card", row[0])
                let work = try f.store.database.read {
                    try RecordWork.load($0, key, f.store.schema, LastWriterDeltas())
                }
                let base = try #require(work).base
                let fields = try FieldValue.object(base.fields).jsonText()
                return "\(key) \(base.isLive) \(fields) \(base.stamps)"
            }
        return try all.flatMap { try f.rows($0).map(\.description) } + bases
    }

    @Test("I6 records that are replayed together end as those that are replayed one by one", arguments: 0..<12)
    func together(seed: UInt64) async throws {
        var ends: [[String]] = []
        for isTogether in [true, false] {
            var chance = SeededGenerator(seed: seed)
            let f = try Fixture(seed: Int64(seed) + 1)
            try await f.applyBoard()
            try await f.apply(record("list", "l2", 4, ["name": "L2", "idBoard": "b1"]))
            for n in 0..<30 {
                try await f.apply(record("card", "e\(n)", Int64(n + 5), ["name": "C", "idList": "l1", "votes": 1]))
            }
            let ids = try edit(f, &chance)
            for page in 1...3 {
                var version = Int64(page * 1_000)
                var records: [ServerRecord] = []
                for id in ids.shuffled(using: &chance) {
                    version += 1
                    let one = server(id, version, &chance)
                    records.append(one)
                    // What comes twice in a slice is looked at by itself.
                    var other = one
                    other.version = version + 500
                    if !isTogether { records.append(other) }
                }
                let slice = PageSlice(
                    records: records.sorted { $0.version < $1.version }, from: 0, checkpoint: version,
                    epoch: Fixture.epoch)
                _ = try await f.store.apply(slice)
            }
            #expect(try f.int("SELECT count(*) FROM sync_record WHERE base IS NOT NULL") ?? 0 > 10)
            #expect(try await f.store.integrityProblems().isEmpty)
            ends.append(try state(f))
        }
        #expect(ends[0].count == ends[1].count)
        for (together, alone) in zip(ends[0], ends[1]) { #expect(together == alone) }
    }

    @Test("I6 a row that the table does not take is held alone; those beside it show their unsent edits")
    func broken() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        for n in 0..<40 {
            try await f.apply(record("card", "e\(n)", Int64(n + 4), ["name": "C", "idList": "l1"]))
        }
        try f.sql("CREATE TRIGGER no BEFORE UPDATE ON card WHEN NEW.pos = 13 BEGIN SELECT RAISE(ABORT, 'no'); END")
        try f.sql("UPDATE card SET name = 'mine'")
        let records = (0..<40).map {
            record("card", "e\($0)", Int64($0 + 100), ["name": "theirs", "idList": "l1", "pos": .int(Int64($0))])
        }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 200, epoch: Fixture.epoch))
        #expect(try await f.store.held().map(\.record.id) == ["e13"])
        #expect(try f.int("SELECT count(*) FROM card WHERE name = 'mine'") == 41)
        #expect(try f.int("SELECT count(*) FROM card WHERE id <> 'c1' AND pos = substr(id, 2)") == 39)
        #expect(try await f.store.conflicts().count == 39)
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE base IS NOT NULL") == 39)
    }

    @Test("A record below the version that a verdict told is left out, though no full pass ever was")
    func belowVerdict() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'mine' WHERE id = 'c1'")
        try await f.drain(from: 20)
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 21)
        try await f.apply(record("card", "c1", 15, ["name": "older", "idList": "l1"]))
        #expect(try f.text("SELECT name FROM card WHERE id = 'c1'") == "mine")
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 21)
    }
}
