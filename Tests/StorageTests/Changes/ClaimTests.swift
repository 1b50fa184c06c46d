import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite struct ClaimTests {
    /// The first item, in the words of the coalescing table, and the one after it.
    enum Step: String, CaseIterable {
        case create, update, delete
    }

    /// QUE-09: each first item pending or uncertain; what goes out.
    static let table: [(Step, Step, Bool, [String])] = [
        (.create, .update, false, ["create"]),
        (.update, .update, false, ["update"]),
        (.update, .delete, false, ["delete"]),
        (.create, .delete, false, []),
        (.delete, .create, false, ["delete", "create"]),
        (.create, .update, true, ["create", "update"]),
        (.update, .update, true, ["update", "update"]),
        (.update, .delete, true, ["update", "delete"]),
        (.create, .delete, true, ["create", "delete"]),
        (.delete, .create, true, ["delete", "create"]),
    ]

    @Test("QUE-09 the coalescing table, the first item pending or uncertain", arguments: table)
    func coalescing(first: Step, second: Step, isUncertain: Bool, expected: [String]) async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        let id = first == .create ? "new" : "c1"
        func perform(_ step: Step, _ name: String) throws {
            switch step {
            case .create: try fixture.insertCard(id, name: name)
            case .update: try fixture.sql("UPDATE card SET name = ? WHERE id = ?", [name, id])
            case .delete: try fixture.sql("DELETE FROM card WHERE id = ?", [id])
            }
        }
        try perform(first, "one")
        var sent: Change?
        if isUncertain {
            let claim = try await fixture.claim()
            sent = try #require(claim.changes.first).change
            try await fixture.settle((claim.keys[0], .unanswered))
        }
        try perform(second, "two")
        let claim = try await fixture.claim()
        #expect(claim.changes.map(\.change.operation.rawValue) == expected)
        if let sent {
            // QUE-10: the same key has the same content for ever.
            #expect(claim.changes[0].change == sent)
        }
        if expected == ["create"] || expected == ["update"] {
            #expect(claim.changes[0].change.fields["name"]?.new == "two")
        }
        if expected == ["update"] { #expect(claim.changes[0].change.fields["name"]?.old == "Card") }
        #expect(claim.summary.pending == 0)
        try await fixture.drain()
    }

    @Test("QUE-11 an edit is not moved across another change")
    func neighbours() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("c2")
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('l2', 'L', 'b1')")
        try fixture.sql("UPDATE card SET idList = 'l2' WHERE id = 'c2'")
        let claim = try await fixture.claim()
        #expect(claim.told == ["create card c2", "create list l2", "update card c2"])
    }

    @Test("DAT-30 edits that were merged keep each field's stamp")
    func stamps() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try fixture.sql("UPDATE card SET pos = 2 WHERE id = 'c1'")
        let before = try fixture.changes()
        let change = try #require(try await fixture.claim().changes.first).change
        #expect(change.stamp == before[1].stamp)
        #expect(change.fields["name"]?.stamp == before[0].stamp)
        #expect(change.fields["pos"]?.stamp == nil)
        #expect(change.id == before[1].id)
    }

    @Test("QUE-09 a create that was edited keeps its stamp, the edit its own")
    func createdAndEdited() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("c2")
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c2'")
        let before = try fixture.changes()
        let change = try #require(try await fixture.claim().changes.first).change
        #expect(change.stamp == before[0].stamp)
        #expect(change.fields["name"] == FieldDelta(old: nil, new: "B", stamp: before[1].stamp))
        #expect(change.fields["idList"] == FieldDelta(old: nil, new: "l1"))
    }

    @Test("QUE-09 two sums stay two, since each has its stamp")
    func sums() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET votes = votes + 1 WHERE id = 'c1'")
        try fixture.sql("UPDATE card SET votes = votes + 1 WHERE id = 'c1'")
        #expect(try await fixture.claim().changes.map { $0.change.fields["votes"]?.new } == [2, 3])
    }

    @Test("QUE-09 a create and a delete of what the server knew is a delete")
    func knownCreate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .applied(10)))
        try fixture.insertCard("c1")
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        #expect(try await fixture.claim().told == ["delete card c1"])
    }

    @Test("IDS-07 the key that goes out was made with the write; the version is filled in once")
    func keys() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let key = try fixture.text("SELECT key FROM sync_change")
        let claim = try await fixture.claim()
        #expect(claim.keys == [key])
        #expect(claim.changes[0].change.baseVersion == 3)
        #expect(claim.settled == claim.changes[0].change.sequence - 1)
        #expect(try fixture.int("SELECT state FROM sync_change") == 1)
        try await fixture.settle((claim.keys[0], .unanswered(attempts: 2)))
        try await fixture.apply(record("card", "c1", 9, ["name": "Other"]))
        let again = try await fixture.claim()
        #expect(again.changes[0].change == claim.changes[0].change)
        #expect(again.changes[0].attempts == 2)
    }

    @Test("PRC-04 what was on its way at a crash is uncertain and goes again as it was")
    func crash() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', closed = 1, cover = x'00ff' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.store.database.write { try ChangeTable.recover($0) }
        try fixture.sql("UPDATE card SET name = 'C' WHERE id = 'c1'")
        let again = try await fixture.claim()
        #expect(again.changes[0].change == claim.changes[0].change)
        #expect(again.changes[0].change.fields["closed"]?.new == true)
        #expect(again.changes[0].change.fields["cover"]?.new == .data([0, 255]))
        #expect(again.changes[1].change.fields["name"]?.new == "C")
    }

    @Test("limits by count and bytes; a first change alone may pass them")
    func limits() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        for id in 0..<5 { try fixture.insertCard("n\(id)", name: String(repeating: "x", count: 1_000)) }
        let three = try await fixture.claim(ClaimLimits(maxChanges: 3))
        #expect(three.told == ["create card n0", "create card n1", "create card n2"])
        try await fixture.settle(
            (three.keys[0], .unanswered), (three.keys[1], .unanswered), (three.keys[2], .unanswered))
        #expect(try await fixture.claim(ClaimLimits(maxBytes: 3_000)).changes.count == 2)
        #expect(try await fixture.claim(ClaimLimits(maxBytes: 10)).changes.count == 1)
    }

    @Test("DAT-28 no claim divides a unit, and nothing is merged across its border")
    func units() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'before' WHERE id = 'c1'")
        try await fixture.store.write(unit: true) { db in
            try db.execute(sql: "UPDATE card SET name = 'in' WHERE id = 'c1'")
            try db.execute(sql: "UPDATE list SET name = 'in' WHERE id = 'l1'")
            try db.execute(sql: "UPDATE board SET name = 'in' WHERE id = 'b1'")
        }
        try fixture.sql("UPDATE board SET name = 'after' WHERE id = 'b1'")
        let first = try await fixture.claim(ClaimLimits(maxChanges: 2))
        #expect(first.told == ["update card c1"])
        try await fixture.settle((first.keys[0], .applied(10)))
        let unit = try await fixture.claim(ClaimLimits(maxChanges: 2))
        #expect(unit.told == ["update card c1", "update list l1", "update board b1"])
        #expect(Set(unit.changes.map(\.change.unit)).count == 1)
        #expect(unit.changes[0].change.unit != nil)
    }

    @Test("QUE-21 an entity that is no longer declared is set aside visibly")
    func unknownEntity() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try await fixture.store.database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO sync_change (position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields)
                    VALUES (900, 900, 'k', 'sticker', 's', 1, 1, 1, 1, '{"name":{"old":"a","new":"b"}}');
                    INSERT INTO sync_change (position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields)
                    VALUES (901, 901, 'l', 'card', 'c1', 1, 1, 1, 1, 'no JSON');
                    UPDATE sync_clock SET queued = queued + 2, sequence = 901
                    """)
        }
        #expect(try await fixture.claim().changes.isEmpty)
        #expect(try await fixture.store.failures().map(\.reason.code) == ["unknownEntity", "invalid"])
    }

    @Test("QUE-22 a change 60 days old is still there")
    func old() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try await fixture.store.database.write {
            try $0.execute(sql: "UPDATE sync_change SET madeAt = madeAt - 5184000000")
        }
        #expect(try await fixture.claim().changes.count == 1)
    }

    @Test(
        "QUE-10 each of many is marked with the version that it goes out with, and nothing else is marked",
        arguments: [1, 15, 16, 17, 40])
    func marks(most: Int) async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        // Held in another order than they are edited in.
        for place in 0..<50 {
            try await fixture.apply(
                record("card", "r\(place * 37 % 50)", Int64(100 + 3 * place), ["name": "R", "idList": "l1"]))
        }
        for index in 0..<50 {
            // Creates among them have no version, and what was made and taken back leaves a gap.
            if index % 19 == 7 { try fixture.insertCard("n\(index)") }
            if index % 23 == 5 {
                try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES (?, 'X', 'b1')", ["x\(index)"])
                try fixture.sql("DELETE FROM list WHERE id = ?", ["x\(index)"])
            }
            try fixture.sql("UPDATE card SET name = 'S' WHERE id = ?", ["r\(index)"])
        }
        var rest = try fixture.changes().filter { !$0.record.id.hasPrefix("x") }.map(\.id)
        while !rest.isEmpty {
            let claim = try await fixture.claim(ClaimLimits(maxChanges: most))
            #expect(claim.keys == Array(rest.prefix(most)))
            for change in claim.changes.map(\.change) where change.operation == .update {
                let held = try fixture.rows("SELECT version FROM sync_record WHERE id = ?", [change.record.id])
                #expect(change.baseVersion == held.first?["version"])
            }
            let marked = try fixture.rows("SELECT key, baseVersion FROM sync_change WHERE state = 1 ORDER BY position")
            #expect(marked.map { $0["key"] as String } == claim.keys)
            #expect(marked.map { $0["baseVersion"] as Int64? } == claim.changes.map(\.change.baseVersion))
            for key in claim.keys {
                try await fixture.settle((key, .applied(version: nil, overwrote: [:], serverID: nil)))
            }
            rest.removeFirst(claim.keys.count)
        }
    }
}
