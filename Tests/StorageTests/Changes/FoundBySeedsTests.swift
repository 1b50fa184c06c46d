import GRDB
@testable import Storage
import SyncCore
import Testing

/// What the simulator found, each in its smallest form.
@Suite("Found by the simulator")
struct FoundBySeedsTests {
    @Test("Seed 12: a delete that is tried again and loses brings back what was under the record, too")
    func retriedDeleteLoses() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()), (claim.keys[1], .refused()))
        #expect(try f.hasCard())
        let list = try #require(try await f.store.failures().first { $0.queued.change.record.entity == "list" })
        _ = try await f.store.retry(list.queued.change.id)
        #expect(try !f.hasCard())
        let again = try await f.claim()
        #expect(again.told == ["delete list l1"])
        try await f.settle(
            (again.keys[0], .merged(record("list", "l1", 7, ["name": "Theirs", "idBoard": "b1", "pos": 1.0]))))
        #expect(try f.text("SELECT name FROM list") == "Theirs")
        #expect(try f.hasCard())
        #expect(try f.card("name") == "Card")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 48: a card acknowledged beside its list's death comes back with the list")
    func revivedInOneRequest() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        try f.insertCard("n", name: "New")
        let claim = try await f.claim()
        // The list was dead when its update came, and lives again since a later change of the same request.
        try await f.settle(
            (claim.keys[0], .merged(record("list", "l1", 12, [:], .deleted))), (claim.keys[1], .applied(14)))
        #expect(try !f.hasCard("n"))
        try await f.apply(record("list", "l1", 13, ["name": "B", "idBoard": "b1", "pos": 1.0]))
        #expect(try f.card("name", "n") == "New")
        #expect(try f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 48: what waits for a dead list is forgotten with its own tombstone")
    func diesWithItsList() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .merged(record("list", "l1", 12, [:], .deleted))))
        #expect(try await f.store.position().held == 1)
        try await f.apply(record("card", "c1", 13, [:], .deleted))
        #expect(try await f.store.position().held == 0)
        #expect(try !f.hasCard())
    }

    @Test("Seed 73: an edit of a dead record that cannot be shown stops neither the queue nor the page")
    func unshownRevival() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]))
        try f.sql("UPDATE board SET closed = 1 WHERE id = 'b1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        try await f.apply(record("board", "b1", 2, [:], .deleted))
        _ = try await f.store.retry(claim.keys[0])
        try await f.apply(record("board", "b1", 3, [:], .deleted), record("board", "b2", 4, ["name": "Other"]))
        #expect(try f.text("SELECT name FROM board WHERE id = 'b2'") == "Other")
        let again = try await f.claim()
        #expect(again.told == ["update board b1"])
        try await f.settle((again.keys[0], .merged(record("board", "b1", 5, ["name": "Board", "closed": true]))))
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Board")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 155: a held record that breaks a foreign key of the app's stops neither the queue nor a page")
    func brokenKey() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("CREATE TABLE note (id TEXT PRIMARY KEY, card TEXT NOT NULL REFERENCES card (id))")
        try f.sql("INSERT INTO note VALUES ('note', 'c1')")
        try await f.apply(record("card", "c1", 5, [:], .deleted))
        #expect(try await f.store.position().held == 1)
        try await f.apply(record("board", "b2", 6, ["name": "Other"]))
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE id = 'b2'") == 1)
        #expect(try await f.store.position().held == 1)
        try f.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(7)))
        #expect(try await f.store.summary() == QueueSummary())
        try f.sql("DELETE FROM note")
        _ = try await f.claim()
        #expect(try !f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 130: a verdict that moves a card into a list that is not here yet waits for the list")
    func mergedBeforeItsParent() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle(
            (claim.keys[0], .merged(record("card", "c1", 12, ["name": "Theirs", "idList": "l2", "pos": 1.0]))))
        #expect(try await f.store.summary() == QueueSummary())
        try await f.apply(record("list", "l2", 11, ["name": "Two", "idBoard": "b1"]))
        #expect(try f.card("idList") == "l2")
        #expect(try f.card("name") == "Theirs")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 223: an expired change leaves what the server said last; what came of it is in the next page")
    func expired() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.apply(record("card", "c1", 9, ["name": "Theirs", "idList": "l1", "pos": 1.0]))
        try await f.settle((claim.keys[0], .refused("expired")))
        #expect(try f.card("name") == "Theirs")
        #expect(try await f.store.summary() == QueueSummary())
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'expired'") == 1)
    }

    @Test("Seed 237: taking back one member of a sent unit says which inverse undoes the others")
    func cancelledUnit() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList) VALUES ('n', 'N', 'l1')")
            try db.execute(sql: "UPDATE card SET name = 'B' WHERE id = 'c1'")
        }
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        // What it wrote is written again: nothing of it is left to undo.
        try f.sql("UPDATE card SET name = 'C' WHERE id = 'c1'")
        let outcome = try await f.store.cancel(claim.keys[1])
        let last = try #require(try f.changes().last)
        #expect(last.operation == .delete && last.record.id == "n")
        #expect(outcome == .inverse(last.id))
    }

    @Test("Seed 130: a sent delete is not taken back once its parent is gone")
    func cancelledWithoutParent() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered))
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        #expect(try await f.store.cancel(claim.keys[0]) == .tooLate)
        #expect(try f.changes().map(\.operation) == [.delete, .delete])
    }

    @Test(
        "Seed 46577: a sent delete that was taken back and made again is not taken back once more by the first one's name"
    )
    func deletedAgain() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let first = try await f.claim().keys[0]
        try await f.settle((first, .unanswered))
        guard case .inverse = try await f.store.cancel(first) else { return #expect(Bool(false), "no inverse") }
        #expect(try f.int("SELECT count(*) FROM card") == 1)
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        #expect(try await f.store.cancel(first) == .tooLate)
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        let last = try #require(try f.changes().last)
        #expect(last.operation == .delete && last.id != first)
    }

    @Test(
        "Seed 50668: a dead record that stays for what is unsent under it shows nothing of an edit that was taken back")
    func takenBackOnTheDead() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList) VALUES ('n', 'N', 'l1')")
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try await f.apply(record("list", "l1", 7, [:], .deleted))
        #expect(try f.text("SELECT name FROM list") == "Mine")
        let edit = try #require(try f.changes().last { $0.record.id == "l1" })
        _ = try await f.store.cancel(edit.id)
        #expect(try f.text("SELECT name FROM list") == "List")
        #expect(try f.int("SELECT count(*) FROM card WHERE id = 'n'") == 1)
    }

    @Test("Seed 26: what a retried delete took along does not wait once the delete is done")
    func retriedDeleteIsDone() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()), (claim.keys[1], .refused()))
        _ = try await f.store.retry(claim.keys[1])
        #expect(try await f.store.position().held == 1)
        let again = try await f.claim()
        try await f.settle((again.keys[0], .applied(9)))
        #expect(try await f.store.position().held == 0)
        // Somebody brings the list back: the card comes with a new version.
        try await f.apply(
            record("list", "l1", 10, ["name": "List", "idBoard": "b1"]),
            record("card", "c1", 11, ["name": "Card", "idList": "l1"]))
        #expect(try f.hasCard())
    }

    @Test("Seed 30: deleting a refused record gives up what needs it, and not what was written beside it as a unit")
    func refusedInUnit() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]))
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList) VALUES ('c', 'C', 'n')")
            try db.execute(sql: "UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        }
        #expect(try await f.claim().changes.isEmpty)
        try f.sql("DELETE FROM list WHERE id = 'n'")
        let next = try await f.claim()
        #expect(next.told == ["update board b1"])
        #expect(try f.text("SELECT name FROM board") == "Mine")
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'cancelled' AND id = 'n'") ?? 0 > 0)
    }

    @Test("Seed 66: a later change's verdict counts as missing, too, where an earlier one's is")
    func missingVerdictBefore() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET labels = '[\"a\"]' WHERE id = 'c1'")
        try f.sql("UPDATE card SET labels = '[\"a\",\"b\"]' WHERE id = 'c1'")
        let claim = try await f.claim()
        #expect(claim.keys.count == 2)
        // The page leaves the record out: it follows from both changes.
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .applied(5)))
        let again = try await f.claim()
        #expect(again.keys == claim.keys)
        // In any order: the queue's counts.
        try await f.settle((again.keys[1], .applied(5)), (again.keys[0], .applied(4)))
        #expect(try await f.store.summary() == QueueSummary())
        #expect(try f.card("labels") == #"["a","b"]"#)
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 5)
    }

    @Test(
        "Seed 44036: an element taken out that was never put in, since that was taken back, leaves the field without a value"
    )
    func elementTakenBack() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET labels = '[\"a\"]' WHERE id = 'c1'")
        try f.sql("UPDATE card SET labels = '[]', name = 'Mine' WHERE id = 'c1'")
        let queued = try await f.store.queued()
        _ = try await f.store.cancel(queued[0].change.id)
        let claim = try await f.claim()
        #expect(claim.keys == [queued[1].change.id])
        // The server keeps nothing of an empty difference.
        try await f.settle((claim.keys[0], .applied(4)))
        try await f.apply(
            record("card", "c1", 4, ["name": "Mine", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]))
        #expect(try f.int("SELECT count(*) FROM card WHERE labels IS NULL AND name = 'Mine'") == 1)
    }

    @Test("Seed 30: edits of a new record whose create has no verdict wait with it")
    func missingCreate() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList, labels) VALUES ('n', 'N', 'l1', '[\"a\"]')")
        try f.sql("UPDATE card SET labels = '[]' WHERE id = 'n'")
        let claim = try await f.claim()
        #expect(claim.keys.count == 2)
        try await f.settle((claim.keys[1], .applied(5)))
        try await f.settle((claim.keys[0], .applied(4)))
        try await f.settle((claim.keys[1], .applied(5)))
        #expect(try await f.store.summary() == QueueSummary())
        #expect(try f.card("labels", "n") == "[]")
    }

    @Test("Seed 76: a tombstone under an edit into a list that is gone takes the card once the edit is refused")
    func tombstoneUnderMove() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("list", "l2", 4, ["name": "Two", "idBoard": "b1", "pos": 2.0]))
        try f.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        try await f.apply(record("list", "l2", 10, [:], .deleted))
        _ = try await f.store.retry(claim.keys[0])
        try await f.apply(record("card", "c1", 11, [:], .deleted))
        let again = try await f.claim()
        #expect(again.told == ["update card c1"])
        try await f.settle((again.keys[0], .refused("notFound")))
        #expect(try !f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 91: an edit of a new record that is taken back leaves no value that nobody gave")
    func cancelledEditOfNew() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        _ = try await f.store.retry(claim.keys[0])
        try f.sql("UPDATE card SET closed = 0 WHERE id = 'n'")
        let edit = try #require(try f.changes().last)
        #expect(edit.operation == .update)
        #expect(try await f.store.cancel(edit.id) == .cancelled([edit.id]))
        #expect(try f.card("closed", "n") == nil)
        #expect(try f.card("name", "n") == "A")
    }

    @Test("The same in an app's own table that takes no null there: the rest of the edit is taken back all the same")
    func cancelledEditWithoutNull() async throws {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write {
            try $0.execute(
                sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT, closed BOOLEAN NOT NULL DEFAULT 0)")
        }
        try queue.close()
        let f = try Fixture(
            Schema([EntitySchema("board", fields: [.text("name"), .boolean("closed")])]), file: file)
        try f.sql("INSERT INTO board (id, name) VALUES ('n', 'A')")
        // As an app made it that had no such column yet.
        try f.sql("UPDATE sync_change SET fields = json_remove(fields, '$.closed')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        _ = try await f.store.retry(claim.keys[0])
        try f.sql("UPDATE board SET name = 'B', closed = 1 WHERE id = 'n'")
        let edit = try #require(try f.changes().last)
        #expect(try await f.store.cancel(edit.id) == .cancelled([edit.id]))
        #expect(try f.text("SELECT name FROM board") == "A")
    }

    @Test("Seed 131: a delete of what is dead already does not make an older answer news")
    func deleteOfTheDead() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await f.claim()
        let reason = SetAsideReason(code: "tooManyAttempts", message: "ten times")
        try await f.settle((claim.keys[0], .setAside(reason, staysUncertain: true)))
        try await f.apply(record("card", "c1", 9, [:], .deleted))
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let again = try await f.claim()
        #expect(again.told == ["delete card c1"])
        try await f.settle((again.keys[0], .applied(version: nil, overwrote: [:], serverID: nil)))
        // The update was decided before the record died, and is answered as it was then.
        try await f.settle((claim.keys[0], .merged(record("card", "c1", 5, ["name": "Theirs", "idList": "l1"]))))
        #expect(try !f.hasCard())
        #expect(try await f.store.summary() == QueueSummary())
    }

    @Test("I11: a card stays when its list's old board dies before the page says where the list is now")
    func movedBeforeTheBoardDied() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 4, ["name": "Other"]))
        // The list was moved, the board died, the list was renamed; the card is as it was, so it is not told of.
        try await f.apply(
            record("board", "b1", 7, [:], .deleted),
            record("list", "l1", 8, ["name": "New", "idBoard": "b2", "pos": 1.0]))
        #expect(try f.text("SELECT name FROM list") == "New")
        #expect(try f.card("name") == "Card")
        #expect(try await f.store.position().held == 0)
        // With its own tombstone, before or behind its parent's, nothing waits.
        try await f.apply(
            record("board", "b2", 9, [:], .deleted), record("list", "l1", 10, [:], .deleted))
        #expect(try await f.store.position().held == 1)
        try await f.apply(record("card", "c1", 11, [:], .deleted))
        #expect(try await f.store.position().held == 0)
        #expect(try !f.hasCard())
    }

    @Test("Seed 572: a retried delete that waited for a card under it takes the others along, and brings them back")
    func retriedDeleteThatWaited() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()), (claim.keys[1], .refused()))
        _ = try await f.store.discard(claim.keys[0])
        try f.insertCard("n")
        let create = try await f.claim()
        try await f.settle((create.keys[0], .refused()))
        _ = try await f.store.retry(claim.keys[1])
        #expect(try f.hasCard())
        _ = try await f.store.discard(create.keys[0])
        #expect(try !f.hasCard())
        let again = try await f.claim()
        #expect(again.told == ["delete list l1"])
        try await f.settle(
            (again.keys[0], .merged(record("list", "l1", 7, ["name": "Theirs", "idBoard": "b1", "pos": 1.0]))))
        #expect(try f.card("name") == "Card")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 44: a member of a unit is refused for its own reason while an earlier change of its record is blocked")
    func refusedBehindBlocked() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try f.sql("UPDATE board SET name = 'B' WHERE id = 'b1'")
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "UPDATE card SET name = 'C' WHERE id = 'c1'")
            try db.execute(sql: "UPDATE list SET name = 'C' WHERE id = 'l1'")
        }
        let claim = try await f.claim(ClaimLimits(merges: false))
        #expect(claim.told == ["update card c1", "update board b1", "update card c1", "update list l1"])
        // The first waits for something; the unit's member would have to wait, too, if the unit were not refused.
        try await f.settle(
            (claim.keys[0], .unanswered), (claim.keys[1], .applied(4)), (claim.keys[2], .refused("transaction")),
            (claim.keys[3], .refused("invalid")))
        let failures = try await f.store.failures()
        #expect(failures.map(\.queued.change.id) == [claim.keys[2], claim.keys[3]])
        #expect(failures.map(\.reason.code) == ["transaction", "invalid"])
        #expect(try f.card("name") == "B")
        let again = try await f.claim()
        #expect(again.keys == [claim.keys[0]])
        try await f.settle((again.keys[0], .applied(5)))
        #expect(try f.card("name") == "B")
    }

    @Test("Seed 85: a create without a verdict, of which the page tells already, adds nothing to its own sums")
    func createOverItsRecord() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("none")
        try f.sql("INSERT INTO card (id, name, idList, votes, labels) VALUES ('some', 'S', 'l1', 3, '[\"a\"]')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        try await f.apply(
            record("card", "none", 4, ["name": "A", "idList": "l1", "pos": 1.0]),
            record("card", "some", 5, ["name": "S", "idList": "l1", "votes": 3, "labels": ["a"]]))
        #expect(try f.card("votes", "none") == nil)
        #expect(try f.card("votes", "some") == "3")
        #expect(try f.card("labels", "some") == #"["a"]"#)
        let again = try await f.claim()
        try await f.settle((again.keys[0], .applied(4)), (again.keys[1], .applied(5)))
        #expect(try f.card("votes", "none") == nil)
        #expect(try f.card("votes", "some") == "3")
    }

    @Test("Seed 240: what an earlier device may have sent keeps its stamps when the clock is set right")
    func shiftedOfAnotherDevice() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try f.sql("UPDATE sync_change SET device = 'restored-from'")
        try f.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        let before = try f.changes().map(\.stamp)
        try await f.store.setClockOffset(milliseconds: -200_000)
        let after = try f.changes().map(\.stamp)
        #expect(after[0] == before[0])
        #expect(after[1] < before[1])
    }

    @Test("Seed 71545: an edit over one that keeps its stamps stays above it when the clock is set back; others move")
    func shiftedOverSent() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'First' WHERE id = 'c1'")
        _ = try await f.claim()
        try f.sql("UPDATE list SET name = 'Other' WHERE id = 'l1'")
        try f.sql("UPDATE card SET name = 'Second' WHERE id = 'c1'")
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let before = try f.changes()
        try #require(before.map(\.operation) == [.update, .update, .update, .delete])
        try await f.store.setClockOffset(milliseconds: -50_000)
        let after = try f.changes().map(\.stamp)
        #expect(after[0] == before[0].stamp)
        #expect(after[1].milliseconds == before[1].stamp.milliseconds - 50_000)
        // The last word on this device is the last word on the server.
        #expect(after[2] > after[0] && after[3] > after[2])
        #expect(after[3].milliseconds < before[3].stamp.milliseconds + 1_000)
    }
}
