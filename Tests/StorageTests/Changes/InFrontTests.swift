import GRDB
@testable import Storage
import SyncCore
import Testing

/// An edit of a refused record makes a create again, in the old one's place; what it names by then may stand behind it.
@Suite("A create that stands in front of what it needs")
struct InFrontTests {
    @Test("QUE-07 it waits for the create behind it, and goes once that was done")
    func waits() async throws {
        let f = try await inFront()
        let claim = try await f.claim()
        try #require(claim.told == ["create list n"])
        #expect(try await f.states() == ["create card k blocked", "create list n uploading"])
        // Nobody's word is asked for: whoever waits for the card goes on waiting.
        #expect(try await f.store.fate(of: RecordKey("card", "k")) == .waiting)
        try await f.settle((claim.keys[0], .applied(20)))
        #expect(try await f.store.fate(of: RecordKey("card", "k")) == .waiting)
        let next = try await f.claim()
        try #require(next.told == ["create card k"])
        #expect(next.changes.first?.change.fields["idList"]?.new == "n")
        try await f.drain(from: 20)
    }

    @Test(
        "QUE-07 the same where that one is merged with an edit, or refused and tried again", arguments: [true, false])
    func waitsOn(isRefused: Bool) async throws {
        let f = try await inFront()
        if isRefused {
            let claim = try await f.claim()
            try await f.settle((claim.keys[0], .refused("forbidden")))
            #expect(try await f.claim().changes.isEmpty)
            let card = try #require(try await f.store.queued().first { $0.change.record.id == "k" }).change.id
            #expect(try await f.store.fate(of: RecordKey("card", "k")) == .setAside([card]))
            _ = try await f.store.retry(claim.keys[0])
            #expect(try await f.store.fate(of: RecordKey("card", "k")) == .waiting)
        } else {
            try f.sql("UPDATE list SET name = 'M' WHERE id = 'n'")
        }
        let claim = try await f.claim()
        try #require(claim.told == ["create list n"])
        try await f.settle((claim.keys[0], .applied(20)))
        #expect(try await f.claim().told == ["create card k"])
        try await f.drain(from: 20)
    }

    @Test("QUE-03 it is listed, and given up, with the refused create behind it", arguments: [false, true])
    func discarded(isAnswered: Bool) async throws {
        let f = try await inFront()
        try f.sql("INSERT INTO card (id, name, idList, pos) VALUES ('other', 'O', 'l1', 1)")
        let list = try await f.refuseList(isSent: isAnswered)
        let card = try #require(try await f.store.queued().first { $0.change.record.id == "k" }).change.id
        #expect(try await f.store.dependants(of: list) == [card])
        #expect(try await f.store.dependants(of: [list, card]) == [[card], []])
        #expect(Set(try await f.store.discard(list)) == [list, card])
        #expect(try !f.hasCard("k"))
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'discarded' AND id = 'k'") == 1)
        #expect(try await f.claim().changes.allSatisfy { $0.change.record.id == "other" })
        #expect(try await f.store.failures().isEmpty)
    }

    @Test("QUE-05 it is taken back with the create behind it that was never sent")
    func cancelled() async throws {
        let f = try await inFront()
        let list = try #require(try await f.store.queued().first { $0.change.record.id == "n" }).change.id
        let told = try await f.store.dependants(of: list)
        guard case .cancelled(let keys) = try await f.store.cancel(list) else {
            Issue.record("not taken back")
            return
        }
        #expect(told.count == 1 && Set(keys) == Set(told + [list]))
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.store.queued().isEmpty)
        #expect(try !f.hasCard("k"))
    }

    @Test("QUE-03 through several: each stands in front of what it needs, and what was made in it between")
    func several() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        let refused = try await f.claim()
        try await f.settle((refused.keys[0], .refused()), (refused.keys[1], .refused()))
        try f.insertCard("m", list: "n")
        try f.sql("INSERT INTO board (id, name) VALUES ('r', 'R')")
        try f.sql("UPDATE list SET idBoard = 'r' WHERE id = 'n'")
        try f.sql("UPDATE card SET idList = 'n' WHERE id = 'k'")
        let claim = try await f.claim()
        try #require(claim.told == ["create board r"])
        try await f.settle((claim.keys[0], .refused("forbidden")))
        #expect(try await f.claim().changes.isEmpty)
        let waiting = Set(try await f.store.queued().map(\.change.id))
        #expect(waiting.count == 3)
        #expect(Set(try await f.store.dependants(of: claim.keys[0])) == waiting)
        #expect(Set(try await f.store.discard(claim.keys[0])) == waiting.union(claim.keys))
        #expect(try await f.claim().changes.isEmpty)
        #expect(try f.queued() == 0)
        #expect(try !f.hasCard("k") && !f.hasCard("m"))
    }

    @Test(
        "QUE-03 what moved out of a list that is given up, into another refused one, waits visibly and goes with that")
    func movedAway() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('later', 'L', 'b1')")
        let sent = try await f.claim()
        try await f.settle(
            (sent.keys[0], .refused("forbidden")), (sent.keys[1], .unanswered), (sent.keys[2], .refused("forbidden")))
        try f.sql("UPDATE card SET idList = 'later' WHERE id = 'k'")
        _ = try await f.store.discard(sent.keys[0])
        let card = try #require(try await f.store.queued().first { $0.change.operation == .create })
        #expect(card.state == .blocked && card.blockedBy == sent.keys[2])
        let told = try await f.store.dependants(of: sent.keys[2])
        #expect(told.contains(card.change.id))
        #expect(Set(try await f.store.discard(sent.keys[2])) == Set(told + [sent.keys[2]]))
        #expect(try await f.claim().changes.isEmpty)
        #expect(try !f.hasCard("k"))
    }

    @Test(
        "DAT-11 two that name each other, one of them made again in front: the other goes first, in a unit, too",
        arguments: [false, true])
    func circle(isUnit: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        let refused = try await f.claim()
        try await f.settle((refused.keys[0], .refused()))
        try await f.store.write(unit: isUnit) { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList, pos, idTwin) VALUES ('m', 'M', 'l1', 1, 'k')")
            if isUnit { try db.execute(sql: "UPDATE list SET name = 'M' WHERE id = 'l1'") }
        }
        try f.sql("UPDATE card SET idTwin = 'm' WHERE id = 'k'")
        let claim = try await f.claim()
        try #require(claim.told == (isUnit ? ["create card m", "update list l1"] : ["create card m"]))
        for (index, key) in claim.keys.enumerated() { try await f.settle((key, .applied(Int64(20 + index)))) }
        #expect(try await f.claim().told == ["create card k"])
        try await f.drain(from: 30)
    }

    @Test(
        "QUE-07 seed 35311: what is tried again goes at its place, where the list still is that is deleted and made anew behind it"
    )
    func livesAtItsPlace() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'Anew', 'b1')")
        let sent = try await f.claim(ClaimLimits(merges: false))
        try #require(sent.told.first == "create card k" && sent.told.last == "create list l1")
        let outcomes = sent.keys.map {
            Settlement.Outcome(changeID: $0, kind: $0 == sent.keys[0] ? .refused("idTaken") : .unanswered)
        }
        _ = try await f.store.settle(Settlement(outcomes: outcomes), claim: nil)
        _ = try await f.store.retry(sent.keys[0])
        #expect(try await f.claim().told == sent.told)
    }

    @Test("A record that was made anew is not needed by what named it in its life before")
    func lifeBefore() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("t")
        try await f.drain()
        try f.sql("UPDATE card SET idTwin = 't' WHERE id = 'c1'")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        try f.sql("DELETE FROM card WHERE id = 't'")
        try f.insertCard("t")
        let create = try #require(try await f.store.queued().last?.change)
        #expect(create.operation == .create)
        #expect(try await f.store.dependants(of: create.id).isEmpty)
    }

    /// A card whose create was refused, and which was moved into a list that was made since.
    private func inFront() async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("forbidden")))
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.sql("UPDATE card SET idList = 'n' WHERE id = 'k'")
        // The edit makes a create again; one claim is looked at, and nothing of it leaves.
        let first = try await f.claim(ClaimLimits(maxChanges: 1))
        try await f.store.putBack(first)
        return f
    }
}

extension Fixture {
    /// The list `n` is refused, and what was sent with it is answered as a server does.
    /// - Parameter isSent: whether what waits is looked at once more.
    /// - Returns: the key of the list's create.
    fileprivate func refuseList(isSent: Bool) async throws -> String {
        let claim = try await claim()
        let outcomes = claim.changes.map { queued -> (String, Settlement.Outcome.Kind) in
            switch queued.change.record.id {
            case "n": (queued.change.id, .refused("forbidden"))
            case "k": (queued.change.id, .refused("missingReference", reference: "n"))
            default: (queued.change.id, .applied(30))
            }
        }
        _ = try await store.settle(
            Settlement(outcomes: outcomes.map { Settlement.Outcome(changeID: $0.0, kind: $0.1) }), claim: nil)
        if isSent { _ = try await self.claim() }
        return try #require(claim.changes.first { $0.change.record.id == "n" }).change.id
    }
}
