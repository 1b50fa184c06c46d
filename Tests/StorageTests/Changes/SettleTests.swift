import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite struct SettleTests {
    @Test("DAT-05 what an edit said that went into the delete behind it is told when that is lost, and never sent")
    func editInDelete() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine', votes = 6 WHERE id = 'c1'")
        try f.sql("UPDATE card SET name = 'Mine at last', pos = 2 WHERE id = 'c1'")
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let sent = try await f.claim()
        try #require(sent.told == ["delete card c1"])
        #expect(sent.changes[0].change.fields.isEmpty)
        // It is told also after a refusal and another try.
        try await f.settle((sent.keys[0], .refused("forbidden")))
        let key = try await f.store.retry(sent.keys[0])
        #expect(try await f.claim().keys == [key])
        let theirs = record("card", "c1", 9, ["name": "Theirs", "idList": "l1", "pos": 2.0, "votes": 1])
        try await f.settle((key, .merged(theirs)))
        let sql = "SELECT field, mine, theirs, winner, kind FROM sync_conflict WHERE field IS NOT NULL ORDER BY field"
        let told = try await f.store.database.read { db in
            try Row.fetchAll(db, sql: sql).map { row in (0..<5).map { row[$0] as String }.joined(separator: ", ") }
        }
        #expect(told == ["name, \"Mine at last\", \"Theirs\", theirs, lost", "votes, 6, 1, theirs, lost"])
        #expect(try f.card("name") == "Theirs")
        let number = try #require(try f.int("SELECT number FROM sync_conflict WHERE field = 'name'"))
        try await f.store.restoreLoser(Int64(number))
        #expect(try f.card("name") == "Mine at last")
        try await f.drain(from: 20)
    }

    @Test(
        "DAT-05 an edit that brings a dead record back is one event “revived”; what is edited behind it, or made anew, is none"
    )
    func revived() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        func told() throws -> [String] {
            try f.store.database.read {
                try String.fetchAll($0, sql: "SELECT key FROM sync_event WHERE kind = 'revived' ORDER BY number")
            }
        }
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try f.sql("UPDATE card SET pos = 9 WHERE id = 'c1'")
        // It stays for its unsent edits.
        try await f.apply(record("card", "c1", 12, [:], .deleted))
        try #require(try f.hasCard())
        let edits = try await f.claim(ClaimLimits(merges: false)).keys
        try await f.settle((edits[0], .applied(13)), (edits[1], .applied(14)))
        #expect(try told() == [edits[0]])
        #expect(try f.card("name") == "Mine")
        // Repeated, the verdict says nothing new.
        try await f.settle((edits[0], .applied(13)))
        #expect(try told() == [edits[0]])
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.insertCard("c1", name: "New")
        let anew = try await f.claim()
        try #require(anew.told == ["delete card c1", "create card c1"])
        try await f.settle((anew.keys[0], .applied(15)), (anew.keys[1], .applied(16)))
        #expect(try told() == [edits[0]])
        #expect(try f.card("name") == "New")
        try await f.drain(from: 20)
    }

    @Test("applied: the change goes, the version moves, the row stays")
    func applied() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        let settled = try await fixture.settle((claim.keys[0], .applied(10)))
        #expect(settled.settled == claim.changes[0].change.sequence)
        #expect(settled.summary == QueueSummary())
        #expect(try fixture.int("SELECT version FROM sync_record WHERE id = 'c1'") == 10)
        #expect(try fixture.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil)
        #expect(try fixture.card("name") == "B")
        // A late answer changes nothing.
        try await fixture.settle((claim.keys[0], .refused()))
        #expect(try await fixture.store.failures().isEmpty)
    }

    @Test("applied raises the held version only over its own base, or after an earlier change of the request")
    func versions() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("n")
        try await fixture.store.write(unit: true) { try $0.execute(sql: "UPDATE card SET name = 'B' WHERE id = 'n'") }
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        #expect(claim.told == ["create card n", "update card n", "update card c1"])
        // A page brought a newer one meanwhile: the page must bring this one, too.
        try await fixture.apply(record("card", "c1", 20, ["pos": 5.0]))
        try await fixture.settle(
            (claim.keys[0], .applied(30)), (claim.keys[1], .applied(31)), (claim.keys[2], .applied(32)))
        #expect(try fixture.int("SELECT version FROM sync_record WHERE id = 'n'") == 31)
        #expect(try fixture.int("SELECT version FROM sync_record WHERE id = 'c1'") == 20)
        #expect(try fixture.card("name") == "B")
        #expect(try fixture.card("pos") == "5.0")
    }

    @Test("answers in any order, with some missing, refused or told twice: each change gets its own")
    func anyOrder() async throws {
        let fixture = try Fixture()
        for n in 1...9 { try fixture.sql("INSERT INTO board (id, name) VALUES (?, 'A')", ["b\(n)"]) }
        let claim = try await fixture.claim()
        try fixture.sql("UPDATE board SET name = 'B' WHERE id = 'b9'")
        let keys = claim.keys
        // Of two for one change the first counts; the third is refused, the fifth has none, and one is of nobody.
        try await fixture.settle(
            (keys[8], .applied(19)), (keys[1], .applied(12)), (keys[1], .refused()), (keys[2], .refused()),
            (keys[0], .applied(11)), ("nobody", .applied(99)), (keys[3], .applied(14)), (keys[6], .applied(17)),
            (keys[5], .applied(16)), (keys[7], .applied(18)), (keys[7], .applied(98)))
        let held = try await fixture.store.database.read {
            try String.fetchAll($0, sql: "SELECT id || ' ' || version FROM sync_record WHERE version > 0 ORDER BY id")
        }
        #expect(held == ["b1 11", "b2 12", "b4 14", "b6 16", "b7 17", "b8 18", "b9 19"])
        // 1 is on its way, 4 set aside, 0 never sent.
        let left = try await fixture.store.database.read {
            try String.fetchAll($0, sql: "SELECT id || ' ' || state FROM sync_change ORDER BY position")
        }
        #expect(left == ["b3 4", "b5 1", "b9 0"])
        let next = try await fixture.claim()
        #expect(next.changes.map(\.change.baseVersion) == [nil, 19])
        #expect(try fixture.queued() == 3)
    }

    @Test("a stored outcome from before a newer page leaves what the page brought")
    func staleApplied() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .unanswered))
        // The server did it at 10, then somebody wrote over it at 11.
        try await fixture.apply(record("card", "c1", 11, ["name": "Theirs"]))
        #expect(try fixture.card("name") == "B")
        let again = try await fixture.claim()
        try await fixture.settle((again.keys[0], .applied(10)))
        #expect(try fixture.card("name") == "Theirs")
        #expect(try fixture.int("SELECT version FROM sync_record WHERE id = 'c1'") == 11)
    }

    @Test("merged: the record becomes base and row, later edits stay on top, the loser is journalled")
    func merged() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', pos = 2 WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try fixture.sql("UPDATE card SET pos = 3 WHERE id = 'c1'")
        try await fixture.settle(
            (claim.keys[0], .merged(record("card", "c1", 12, ["name": "Theirs", "pos": 2.0, "due": nil]))))
        #expect(try fixture.card("name") == "Theirs")
        #expect(try fixture.card("pos") == "3.0")
        let journal = try fixture.rows("SELECT field, mine, theirs, winner, kind FROM sync_conflict")
        #expect(
            journal.map { $0.databaseValues.map { String.fromDatabaseValue($0) } }
                == [["name", "\"B\"", "\"Theirs\"", "theirs", "lost"]])
        #expect(try await fixture.claim().changes[0].change.baseVersion == 12)
    }

    @Test("DAT-05 merged with a dead record: the row goes, unless something unsent is on it")
    func mergedDead() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try fixture.sql("UPDATE card SET pos = 3 WHERE id = 'c1'")
        try await fixture.settle((claim.keys[0], .merged(record("card", "c1", 12, [:], .deleted))))
        #expect(try fixture.hasCard())
        let second = try await fixture.claim()
        try await fixture.settle((second.keys[0], .merged(record("card", "c1", 13, [:], .deleted))))
        #expect(try !fixture.hasCard())
        #expect(try fixture.int("SELECT count(*) FROM sync_event WHERE kind = 'died'") == 2)
    }

    @Test("a list that died on the server stays while a card under it waits")
    func mergedDeadParent() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        let claim = try await fixture.claim()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try await fixture.settle((claim.keys[0], .merged(record("list", "l1", 12, [:], .deleted))))
        #expect(try fixture.hasCard())
        #expect(try fixture.int("SELECT count(*) FROM sync_held WHERE id = 'l1'") == 1)
        let next = try await fixture.claim()
        try await fixture.settle((next.keys[0], .merged(record("card", "c1", 13, [:], .deleted))))
        #expect(try !fixture.hasCard())
        #expect(try fixture.int("SELECT count(*) FROM list") == 0)
    }

    @Test("conflict: a successor takes the place, with a new key, the same stamps, over what the server has")
    func conflict() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET desc = 'mine' WHERE id = 'c1'")
        try fixture.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        try fixture.sql("UPDATE card SET desc = 'later' WHERE id = 'c1'")
        let claim = try await fixture.claim(ClaimLimits(maxChanges: 1))
        let change = claim.changes[0].change
        let theirs = record("card", "c1", 12, ["desc": "theirs"])
        let successor = LastWriterDeltas().successor(of: change, over: theirs, conflicts: 0)
        try await fixture.settle((change.id, .conflict(theirs, successor: successor)))
        let queued = try await fixture.store.queued()
        #expect(queued.map(\.change.record.id) == ["c1", "l1", "c1"])
        let next = queued[0]
        #expect(next.change.id != change.id && next.change.sequence > queued[2].change.sequence)
        #expect(next.change.stamp == change.stamp && next.conflicts == 1)
        #expect(next.change.fields["desc"] == FieldDelta(old: "theirs", new: "mine", rule: .check))
        #expect(try fixture.card("desc") == "later")
        let again = try await fixture.claim()
        #expect(again.told == ["update card c1", "update list l1", "update card c1"])
        #expect(again.changes[0].change.baseVersion == 12)
        #expect(again.settled < queued[1].change.sequence)
    }

    @Test("conflict with nothing left to say: the record stands")
    func conflictOver() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET desc = 'same' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle(
            (claim.keys[0], .conflict(record("card", "c1", 12, ["desc": "same", "pos": 9.0]), successor: nil)))
        #expect(try await fixture.store.queued().isEmpty)
        #expect(try fixture.card("pos") == "9.0")
    }

    @Test("QUE-02 a refused create stays, marked with its reason; an edit ends the refusal")
    func refusedCreate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("n", name: "too long")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()))
        #expect(try fixture.hasCard("n"))
        let failure = try #require(try await fixture.store.failures().first)
        #expect(failure.reason.code == "invalid" && failure.queued.change.fields["name"]?.new == "too long")
        #expect(try await fixture.claim().changes.isEmpty)
        #expect(try await fixture.store.summary().failed == 1)
        try fixture.sql("UPDATE card SET name = 'short' WHERE id = 'n'")
        let mended = try await fixture.claim()
        #expect(mended.told == ["create card n"])
        #expect(mended.changes[0].change.fields["name"]?.new == "short")
        #expect(mended.keys[0] != claim.keys[0])
        try await fixture.settle((mended.keys[0], .applied(20)))
        #expect(try await fixture.store.failures().isEmpty)
        try await fixture.drain()
    }

    @Test("QUE-02 a refused create that is deleted here comes to nothing")
    func refusedThenDeleted() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("n")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused("idTaken")))
        try fixture.sql("DELETE FROM card WHERE id = 'n'")
        #expect(try await fixture.claim().changes.isEmpty)
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try await fixture.store.queued().isEmpty)
    }

    @Test("DAT-29 a refused update under a later edit and a later pull shows the later edit")
    func refusedUpdate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'refused', pos = 7 WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try fixture.sql("UPDATE card SET name = 'second' WHERE id = 'c1'")
        try await fixture.apply(record("card", "c1", 9, ["name": "Server", "pos": 2.0]))
        try await fixture.settle((claim.keys[0], .refused("forbidden")))
        #expect(try fixture.card("name") == "second")
        #expect(try fixture.card("pos") == "2.0")
        let failure = try #require(try await fixture.store.failures().first)
        #expect(failure.queued.change.fields["name"]?.new == "refused")
        // What comes after it goes on, from what was there before it.
        let next = try await fixture.claim()
        #expect(next.changes[0].change.fields["name"] == FieldDelta(old: "Card", new: "second"))
        #expect(next.settled == next.changes[0].change.sequence - 1)
    }

    @Test("a refused delete brings the row back, with what is above it")
    func refusedDelete() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET cover = x'0102', closed = 1, due = '2026-11-21T08:00:00.123Z' WHERE id = 'c1'")
        try await fixture.drain()
        try fixture.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await fixture.claim()
        #expect(Set(claim.told) == ["delete card c1", "delete list l1"])
        _ = try await fixture.store.settle(
            Settlement(outcomes: claim.keys.map { Settlement.Outcome(changeID: $0, kind: .refused("forbidden")) }),
            claim: nil)
        #expect(try fixture.card("hex(cover)") == "0102")
        #expect(try fixture.card("closed") == "1")
        #expect(try fixture.card("due") == "2026-11-21T08:00:00.123Z")
        #expect(try fixture.int("SELECT count(*) FROM list") == 1)
        #expect(try await fixture.store.queued().isEmpty)
    }

    @Test("a suspect that is set aside stays shown and uncertain, holds `settled`, and keeps its key on retry")
    func suspect() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        let reason = SetAsideReason(code: "tooManyAttempts", message: "ten times")
        let settled = try await fixture.settle((claim.keys[0], .setAside(reason, staysUncertain: true)))
        #expect(settled.settled == claim.changes[0].change.sequence - 1)
        #expect(try fixture.card("name") == "B")
        #expect(try await fixture.store.failures()[0].isUncertain)
        #expect(try await fixture.store.retry(claim.keys[0]) == claim.keys[0])
        let again = try await fixture.claim()
        #expect(again.changes[0].change == claim.changes[0].change)
        // A late verdict about one set aside counts.
        try await fixture.settle((again.keys[0], .setAside(reason, staysUncertain: true)))
        let late = try await fixture.settle((again.keys[0], .applied(9)))
        #expect(late.summary.failed == 0 && late.settled == claim.changes[0].change.sequence)
    }

    @Test("a later edit that was taken before an earlier one was decided stays shown")
    func outOfOrder() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', votes = votes + 1 WHERE id = 'c1'")
        let first = try await fixture.claim()
        let reason = SetAsideReason(code: "tooManyAttempts", message: "ten times")
        try await fixture.settle((first.keys[0], .setAside(reason, staysUncertain: true)))
        try fixture.sql("UPDATE card SET name = 'C', votes = votes + 5 WHERE id = 'c1'")
        let second = try await fixture.claim()
        try await fixture.settle((second.keys[0], .applied(9)))
        #expect(try fixture.card("name") == "C")
        #expect(try fixture.card("votes") == "7")
        _ = try await fixture.store.discard(first.keys[0])
        #expect(try fixture.card("name") == "C")
        #expect(try fixture.card("votes") == "6")
        #expect(try fixture.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil)
    }

    @Test("IDS-10 an outcome that is known no more: the change is over, and there is an event")
    func expired() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused("expired")))
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try await fixture.store.queued().isEmpty)
        #expect(try fixture.int("SELECT count(*) FROM sync_event WHERE kind = 'expired'") == 1)
        #expect(try fixture.int("SELECT version FROM sync_record WHERE id = 'c1'") == 3)
    }

    @Test("IDS-10 PRC-19 what such changes wrote is kept in the journal until a page shows it, and can be restored")
    func expiredValues() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B', votes = 9 WHERE id = 'c1'")
        try f.insertCard("n", name: "New")
        try f.insertCard("m", name: "Also")
        let keys = try await f.claim().keys
        try await f.settle(
            (keys[0], .refused("expired")), (keys[1], .refused("expired")), (keys[2], .refused("expired")))
        #expect(try !f.hasCard("n"))
        let lines = try await f.store.conflicts()
        #expect(lines.count == 4)
        #expect(lines.allSatisfy { $0.kind == "expired" && $0.winner == "theirs" })
        #expect(lines.first { $0.field == "name" }?.mine == "B")
        // One was done, and so was half of the edit.
        try await f.apply(
            record("card", "c1", 5, ["name": "B", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]),
            record("card", "m", 6, ["name": "Also", "idList": "l1", "pos": 1.0]))
        let left = try await f.store.conflicts()
        #expect(Set(left.map(\.record.id)) == ["n", "c1"])
        #expect(left.first { $0.record.id == "c1" }?.field == "votes")
        for each in left { _ = try await f.store.restoreLoser(each.number) }
        #expect(try f.card("name", "n") == "New")
        #expect(try f.int("SELECT votes FROM card WHERE id = 'c1'") == 9)
        #expect(Set(try await f.claim().told) == ["create card n", "update card c1"])
    }

    @Test("DAT-28 a refused unit is set aside whole and retried whole")
    func refusedUnit() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try await fixture.store.write(unit: true) { db in
            try db.execute(sql: "UPDATE card SET name = 'in' WHERE id = 'c1'")
            try db.execute(sql: "UPDATE list SET name = 'in' WHERE id = 'l1'")
        }
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()), (claim.keys[1], .refused("transaction")))
        #expect(try fixture.card("name") == "Card")
        #expect(try await fixture.store.failures().count == 2)
        #expect(try await fixture.store.dependants(of: claim.keys[0]) == [claim.keys[1]])
        _ = try await fixture.store.retry(claim.keys[0])
        #expect(try fixture.card("name") == "in")
        let again = try await fixture.claim(ClaimLimits(maxChanges: 1))
        #expect(again.told == ["update card c1", "update list l1"])
    }

    @Test("a conflict within a unit: the unit goes again whole")
    func conflictInUnit() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try await fixture.store.write(unit: true) { db in
            try db.execute(sql: "UPDATE list SET name = 'in' WHERE id = 'l1'")
            try db.execute(sql: "UPDATE card SET desc = 'in' WHERE id = 'c1'")
        }
        let claim = try await fixture.claim()
        let theirs = record("card", "c1", 12, ["desc": "theirs"])
        let successor = LastWriterDeltas().successor(of: claim.changes[1].change, over: theirs, conflicts: 0)
        try await fixture.settle((claim.keys[0], .unanswered), (claim.keys[1], .conflict(theirs, successor: successor)))
        let again = try await fixture.claim(ClaimLimits(maxChanges: 1))
        #expect(again.told == ["update list l1", "update card c1"])
        #expect(again.keys[0] == claim.keys[0] && again.keys[1] != claim.keys[1])
    }

    @Test("clock, schedule and counts are durable")
    func schedule() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        let schedule = QueueSchedule(
            failures: 3, notBeforeMilliseconds: 5, serverNotBeforeMilliseconds: 6, changesNotBeforeMilliseconds: 7,
            needsCredentials: true, batchLimit: 2, cause: "down")
        let stamp = Stamp(milliseconds: 9_000_000, counter: 3)
        _ = try await fixture.store.settle(Settlement(schedule: schedule, stamp: stamp), claim: nil)
        #expect(try await fixture.store.summary().schedule == schedule)
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        #expect(try fixture.changes()[0].stamp > stamp)
    }
}
