import GRDB
@testable import Storage
import SyncCore
import Testing

/// What the simulator found of changes that are given up, each in its smallest form: what goes with them, and what does not.
@Suite("Found by the simulator: what goes with a change, and what has moved away")
struct FoundInPartingsTests {
    @Test("Seed 30233: what was made in a refused list, and moved out of it, stays when the list is deleted")
    func movedOutOfRefused() async throws {
        let f = try await refusedList()
        try f.sql("UPDATE card SET idList = 'l1', name = 'Moved' WHERE id = 'k'")
        try f.sql("DELETE FROM list WHERE id = 'n'")
        let claim = try await f.claim()
        #expect(try f.card("name", "k") == "Moved")
        try #require(claim.told == ["create card k"])
        #expect(claim.changes.first?.change.fields["idList"]?.new == "l1")
        #expect(claim.changes.first?.change.fields["name"]?.new == "Moved")
        #expect(try await f.store.failures().isEmpty)
        try await f.settle((claim.keys[0], .applied(20)))
        #expect(try await f.store.queued().isEmpty)
        #expect(try f.card("idList", "k") == "l1")
    }

    @Test("The same two levels deep: the list stays with the card in it, and the board goes with what is in it still")
    func subtree() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO board (id, name) VALUES ('r', 'Refused')")
        for id in ["n", "o"] { try f.sql("INSERT INTO list (id, name, idBoard) VALUES (?, 'N', 'r')", [id]) }
        try f.insertCard("k", list: "n")
        try f.insertCard("m", list: "o")
        let sent = try await f.claim()
        #expect(sent.changes.count == 5)
        // The others were answered with `blocked`, so they were sent.
        try await f.settle((sent.keys[0], .refused("forbidden")))
        try f.sql("UPDATE list SET idBoard = 'b1' WHERE id = 'n'")
        try f.sql("DELETE FROM board WHERE id = 'r'")
        let claim = try await f.claim()
        try #require(claim.told == ["create list n", "create card k", "update list n"])
        #expect(claim.changes.first?.change.fields["idBoard"]?.new == "b1")
        // What names nothing that went is as it was sent.
        #expect(claim.keys[0] != sent.keys[1] && claim.keys[1] == sent.keys[3])
        #expect(try f.hasCard("k") && !f.hasCard("m"))
        #expect(try await f.store.failures().isEmpty)
        #expect(try f.queued() == claim.changes.count)
        try await f.settle(
            (claim.keys[0], .applied(20)), (claim.keys[1], .applied(21)), (claim.keys[2], .applied(22)))
        #expect(try await f.store.queued().isEmpty)
    }

    @Test(
        "Seed 30323: what moved into a list that was made later waits for that one's create, whatever is merged into it"
    )
    func movedIntoLater() async throws {
        let f = try await refusedList()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('later', 'L', 'b1')")
        try f.sql("UPDATE list SET name = 'Later' WHERE id = 'later'")
        try f.sql("UPDATE card SET idList = 'later' WHERE id = 'k'")
        try f.sql("DELETE FROM list WHERE id = 'n'")
        let claim = try await f.claim()
        try #require(claim.told == ["create list later"])
        #expect(try f.card("idList", "k") == "later")
        try await f.settle((claim.keys[0], .applied(20)))
        let next = try await f.claim()
        #expect(next.told == ["create card k"])
        #expect(next.changes.first?.change.fields["idList"]?.new == "later")
    }

    @Test(
        "Seed 30323 with the server's ids: what was sent before goes out behind the create that it needs, although both are taken back",
        arguments: [false, true])
    func takenBackBehindAnUnsentCreate(asUnit: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO board (id, name) VALUES ('r', 'Refused')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'r')")
        try f.insertCard("k", list: "n")
        let sent = try await f.claim()
        try #require(sent.told == ["create board r", "create list n", "create card k"])
        try await f.settle((sent.keys[0], .refused("forbidden")))
        try f.sql("INSERT INTO board (id, name) VALUES ('later', 'L')")
        if asUnit {
            try await f.store.write(unit: true) { db in
                try db.execute(sql: "UPDATE list SET idBoard = 'later' WHERE id = 'n'")
                try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('o', 'O', 'later')")
            }
        } else {
            try f.sql("UPDATE list SET idBoard = 'later' WHERE id = 'n'")
        }
        try f.sql("DELETE FROM board WHERE id = 'r'")
        let claim = try await f.claim()
        try #require(claim.told == ["create board later"])
        try await f.settle((claim.keys[0], .unanswered))
        guard case .inverse = try await f.store.cancel(claim.keys[0]) else {
            Issue.record("It was sent, so that an inverse takes it back.")
            return
        }
        #expect(try f.int("SELECT count(*) FROM board WHERE id = 'later'") == 0)
        #expect(try !f.hasCard("k"))
        let again = try await f.claim()
        // The board's own inverse may go with it; what is under it waits for it.
        try #require(again.told.first == "create board later" && again.keys[0] == claim.keys[0])
        try await f.settle((again.keys[0], .applied(20)))
        var told: [String] = []
        var version: Int64 = 21
        while case let next = try await f.claim(), !next.changes.isEmpty {
            told += next.told
            _ = try await f.store.settle(
                Settlement(
                    outcomes: next.keys.enumerated().map {
                        .init(changeID: $1, kind: .applied(version + Int64($0)))
                    }), claim: nil)
            version += Int64(next.keys.count)
        }
        #expect(told.starts(with: ["create list n", "create card k"]))
        #expect(told.dropFirst(2).sorted() == ["delete board later", "delete card k", "delete list n"])
        #expect(try await f.store.queued().isEmpty)
        #expect(try await f.store.failures().isEmpty)
        #expect(try f.int("SELECT count(*) FROM list WHERE id IN ('n', 'o')") == 0)
    }

    @Test(
        "What was sent, and has moved away from a create that was not, goes behind it: it is too late to take that back"
    )
    func movedAwayFromAnUnsentCreate() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .refused("forbidden")))
        let next = try await f.store.retry(sent.keys[0])
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'k'")
        #expect(try await f.store.cancel(next) == .tooLate)
        let claim = try await f.claim()
        #expect(claim.told == ["create list n", "create card k", "update card k"])
        #expect(claim.keys[1] == sent.keys[1])
    }

    @Test("Seed 597: a refused list is given up, then the refused unit that made a card in it and edited it: both go")
    func unitOverRefused() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList, pos) VALUES ('k', 'K', 'n', 1)")
            try db.execute(sql: "UPDATE list SET name = 'M' WHERE id = 'n'")
        }
        let sent = try await f.claim(ClaimLimits(merges: false))
        try #require(sent.told == ["create list n", "create card k", "update list n"])
        try await f.settle(
            (sent.keys[0], .refused("forbidden")), (sent.keys[1], .refused("transaction")),
            (sent.keys[2], .refused("transaction")))
        _ = try await f.store.discard(sent.keys[0])
        _ = try await f.store.discard(sent.keys[1])
        #expect(try await f.store.queued().isEmpty)
        #expect(try !f.hasCard("k"))
        #expect(try f.int("SELECT count(*) FROM list WHERE id = 'n'") == 0)
    }

    @Test("What a known card was given when it moved into a refused list stays, when it has left that again")
    func namedOnTheWayIn() async throws {
        let f = try await refusedList()
        try f.sql("UPDATE card SET idList = 'n', name = 'Kept' WHERE id = 'c1'")
        // The move waits for the list.
        #expect(try await f.claim().changes.isEmpty)
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'n'")
        let claim = try await f.claim()
        #expect(claim.told == ["update card c1"])
        let name = claim.changes.first?.change.fields["name"]
        #expect(name?.old == "Card" && name?.new == "Kept")
        #expect(try f.card("name") == "Kept")
        #expect(try f.card("idList") == "l1")
        #expect(try !f.hasCard("k"))
    }

    @Test("Seed 2295: in a restored copy the deletes go to the server of what the device before may have had done")
    func deletesInACopy() async throws {
        for (device, code, told) in [
            (nil, "forbidden", []), ("restored-from", "forbidden", ["delete card k", "delete list n"]),
            ("restored-from", "idTaken", ["delete card k"]),
        ] as [(String?, String, [String])] {
            let f = try await refusedList(code)
            try f.sql("UPDATE sync_change SET device = ?", [device])
            try f.sql("DELETE FROM list WHERE id = 'n'")
            let claim = try await f.claim()
            try #require(claim.told == told)
            #expect(try await f.store.failures().isEmpty)
            // Refused or done, there was nothing here that comes back.
            if let key = claim.keys.first { try await f.settle((key, .refused("forbidden"))) }
            if let key = claim.keys.dropFirst().first {
                try await f.settle((key, .applied(version: nil, overwrote: [:], serverID: nil)))
            }
            #expect(try await f.store.queued().isEmpty)
            #expect(try !f.hasCard("k"))
            #expect(try f.int("SELECT count(*) FROM list WHERE id = 'n'") == 0)
        }
    }

    @Test("A discarded create takes along what is in it still, and says so before")
    func discarded() async throws {
        let f = try await refusedList()
        try f.insertCard("m", list: "n")
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'k'")
        let failure = try #require(try await f.store.failures().first?.queued.change.id)
        let told = try await f.store.dependants(of: failure)
        let gone = try await f.store.discard(failure)
        #expect(Set(gone) == Set(told + [failure]) && told.count == 1)
        #expect(try f.hasCard("k") && !f.hasCard("m"))
        let claim = try await f.claim()
        #expect(claim.told == ["create card k"])
        try await f.drain()
    }

    @Test("Seeds 2424, 70294: a move into a refused list, and out of it again, is told of when the list is discarded")
    func discardedWithMoves() async throws {
        let f = try await refusedList()
        try f.sql("UPDATE card SET idList = 'n' WHERE id = 'c1'")
        // The move waits for the list.
        #expect(try await f.claim().changes.isEmpty)
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'c1'")
        let move = try #require(try await f.store.queued().first { $0.change.record.id == "c1" }?.change.id)
        let failure = try #require(try await f.store.failures().first?.queued.change.id)
        let told = try await f.store.dependants(of: failure)
        #expect(told.contains(move))
        let gone = try await f.store.discard(failure)
        #expect(Set(gone) == Set(told + [failure]))
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'discarded' AND id = 'c1'") == 1)
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'cancelled'") == 0)
        #expect(try f.card("idList") == "l1")
        try await f.drain()
    }

    @Test("The same where the list's create is taken back before it was ever sent")
    func cancelledWithMoves() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.sql("UPDATE card SET idList = 'n' WHERE id = 'c1'")
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'c1'")
        let queued = try await f.store.queued().map(\.change.id)
        guard case .cancelled(let keys) = try await f.store.cancel(queued[0]) else {
            Issue.record("not taken back")
            return
        }
        // Whatever left the queue is named.
        let left = try await f.store.queued().map(\.change.id)
        #expect(Set(keys) == Set(queued).subtracting(left) && keys.count > 1)
        #expect(try f.card("idList") == "l1")
    }

    @Test("What was sent into a list of which nobody knows whether it was made goes again as it was")
    func discardedInDoubt() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        let sent = try await f.claim()
        try await f.settle(
            (
                sent.keys[0],
                .setAside(SetAsideReason(code: "tooManyAttempts", message: "no"), staysUncertain: true)
            ), (sent.keys[1], .unanswered))
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'k'")
        _ = try await f.store.discard(sent.keys[0])
        let claim = try await f.claim()
        try #require(claim.told == ["create card k", "update card k"])
        #expect(claim.keys[0] == sent.keys[1])
        #expect(claim.changes[0].change.fields["idList"]?.new == "n")
    }

    @Test("A create taken back leaves what has moved out of it")
    func cancelled() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'k'")
        let create = try #require(try await f.store.queued().first?.change.id)
        #expect(try await f.store.cancel(create) == .cancelled([create]))
        #expect(try f.card("idList", "k") == "l1")
        #expect(try await f.claim().told == ["create card k"])
    }

    @Test("Seed 40616: the inverse of a sent create leaves what has moved out of it, and says so before")
    func inverted() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        try f.insertCard("m", list: "n")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .unanswered), (sent.keys[2], .unanswered))
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'k'")
        #expect(try await f.store.dependants(of: sent.keys[0]) == [sent.keys[2]])
        guard case .inverse = try await f.store.cancel(sent.keys[0]) else {
            Issue.record("no inverse")
            return
        }
        #expect(try f.hasCard("k") && !f.hasCard("m"))
        #expect(
            try await f.claim().told == [
                "create list n", "create card k", "create card m", "update card k", "delete card m", "delete list n",
            ])
    }

    @Test("Seed 15123: the inverse of a delete says all of the record, also what only a page has told since")
    func invertedDelete() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'k'")
        try f.sql("DELETE FROM card WHERE id = 'k'")
        let sent = try await f.claim(ClaimLimits(maxChanges: 2, merges: false))
        try #require(sent.told == ["create card k", "update card k"])
        // Both were done in an earlier life of this device, and nobody knows how: the page tells.
        try await f.settle((sent.keys[0], .refused("expired")), (sent.keys[1], .refused("expired")))
        try await f.apply(record("card", "k", 6, ["name": "Mine", "idList": "l1", "pos": 1.0]))
        let delete = try await f.claim()
        try await f.settle((delete.keys[0], .unanswered))
        guard case .inverse = try await f.store.cancel(delete.keys[0]) else {
            Issue.record("no inverse")
            return
        }
        #expect(try f.card("idList", "k") == "l1")
        let inverse = try #require(try await f.claim().changes.last?.change)
        #expect(inverse.operation == .create)
        #expect(inverse.fields["idList"]?.new == "l1")
        #expect(inverse.fields["name"]?.new == "Mine")
    }

    @Test(
        "Seed 15123: nor is a delete taken back whose parent is deleted, too, where only a page has told of that parent"
    )
    func invertedUnderDeleted() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let sent = try await f.claim(ClaimLimits(maxChanges: 1, merges: false))
        try #require(sent.told == ["create card k"])
        try await f.settle((sent.keys[0], .refused("expired")))
        try await f.apply(record("card", "k", 6, ["name": "A", "idList": "l1", "pos": 1.0]))
        let rest = try await f.claim()
        for key in rest.keys { try await f.settle((key, .unanswered)) }
        let delete = try #require(rest.changes.first { $0.change.record.id == "k" })
        #expect(try await f.store.cancel(delete.change.id) == .tooLate)
    }

    @Test("Seed 30406: a delete is not taken back once the parent is deleted, too")
    func deletedUnderDeleted() async throws {
        let f = try await refusedList()
        try f.sql("DELETE FROM list WHERE id = 'n'")
        let delete = try #require(try await f.store.queued().first { $0.change.operation == .delete })
        #expect(delete.change.record == RecordKey("card", "k"))
        #expect(try await f.store.cancel(delete.change.id) == .tooLate)
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.store.queued().isEmpty)
    }

    @Test("Seed 1852: a create of the old history is refused in the new one; the delete goes to the server")
    func madeInAnotherHistory() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim()
        // The answer was lost; the page brought the card, then the server went back to a backup.
        try await f.settle((create.keys[0], .unanswered))
        try await f.apply(record("card", "n", 6, ["name": "A", "idList": "l1", "pos": 1.0]))
        try await f.store.beginFullPass(epoch: "e-2")
        let again = try await f.claim()
        try await f.settle((again.keys[0], .refused("missingReference")))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let claim = try await f.claim()
        #expect(claim.told == ["delete card n"])
        #expect(try !f.hasCard("n"))
        #expect(try await f.store.failures().isEmpty)
    }

    @Test(
        "Seed 4877: what refers to a record that is given up, and is not under it, stays and goes as it was written",
        arguments: [false, true])
    func referringToRefused(isDiscarded: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .refused("forbidden")))
        try f.sql("INSERT INTO card (id, name, idList, idTwin) VALUES ('m', 'M', 'l1', 'k')")
        try f.sql("UPDATE card SET idTwin = 'k' WHERE id = 'c1'")
        // While the other one may still come, both wait for it.
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.store.dependants(of: create) == [])
        if isDiscarded {
            #expect(try await f.store.discard(create) == [create])
        } else {
            try f.sql("DELETE FROM card WHERE id = 'k'")
        }
        let claim = try await f.claim()
        try #require(claim.told == ["create card m", "update card c1"])
        #expect(claim.changes.allSatisfy { $0.change.fields["idTwin"]?.new == "k" })
        #expect(try f.card("idTwin", "m") == "k")
        #expect(try f.card("idTwin") == "k")
        #expect(try !f.hasCard("k"))
        try await f.settle((claim.keys[0], .applied(20)), (claim.keys[1], .applied(21)))
        #expect(try await f.store.queued().isEmpty)
    }

    @Test(
        "Decision 335: what takes a sum back waits for the verdict also where its record has moved out of what is given up",
        arguments: [false, true])
    func inverseOfSum(movesOut: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        try f.sql("UPDATE card SET votes = 5\(movesOut ? ", idList = 'l1'" : "") WHERE id = 'k'")
        let sent = try await f.claim(ClaimLimits(merges: false))
        try #require(sent.told == ["create list n", "create card k", "update card k"])
        try await f.settle(
            (sent.keys[0], .refused("forbidden")), (sent.keys[1], .unanswered), (sent.keys[2], .unanswered))
        guard case .inverse(let inverse) = try await f.store.cancel(sent.keys[2]) else {
            Issue.record("no inverse")
            return
        }
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'k'")
        _ = try await f.store.discard(sent.keys[0])
        #expect(try await f.store.queued().first { $0.change.id == inverse }?.blockedBy == sent.keys[2])
        let claim = try await f.claim()
        try #require(claim.told.prefix(2) == ["create card k", "update card k"])
        #expect(claim.keys[1] == sent.keys[2] && !claim.keys.contains(inverse))
        // Refused, there is nothing to take back.
        try await f.settle((claim.keys[0], .applied(20)), (claim.keys[1], .refused("invalid")))
        let rest = try await f.claim()
        #expect(rest.changes.allSatisfy { $0.change.fields["votes"] == nil })
        #expect(try await f.store.queued().allSatisfy { $0.change.id != inverse })
        #expect(try f.card("idList", "k") == "l1")
        #expect(try f.card("votes", "k") == nil)
    }

    @Test(
        "Seed 91590: what waits behind such an inverse is none: it goes on without what is given up under another key")
    func behindAnInverse() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
        let sum = try await f.claim()
        try await f.settle((sum.keys[0], .unanswered))
        guard case .inverse(let inverse) = try await f.store.cancel(sum.keys[0]) else {
            Issue.record("no inverse")
            return
        }
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.sql("UPDATE card SET idList = 'n', name = 'moved' WHERE id = 'c1'")
        let moved = try #require(try f.changes().last?.id)
        let claim = try await f.claim(ClaimLimits(merges: false))
        try #require(claim.told == ["update card c1", "create list n"])
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .refused("forbidden")))
        try f.sql("UPDATE card SET idList = 'l1' WHERE id = 'c1'")
        _ = try await f.claim(ClaimLimits(merges: false))
        func waiting(_ key: String) async throws -> String? {
            try await f.store.queued().first { $0.change.id == key }?.blockedBy
        }
        #expect(try await waiting(inverse) == sum.keys[0])
        try #require(try await waiting(moved) == sum.keys[0])
        _ = try await f.store.discard(claim.keys[1])
        #expect(try await waiting(inverse) == sum.keys[0])
        let left = try await f.store.queued().map(\.change).filter { $0.record.entity == "card" }
        #expect(!left.contains { $0.id == moved })
        #expect(left.contains { $0.fields.keys.sorted() == ["name"] && $0.fields["name"]?.new == "moved" })
    }

    /// A list whose create was refused, and a card that was made in it since.
    private func refusedList(_ code: String = "forbidden") async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused(code)))
        try f.insertCard("k", list: "n")
        return f
    }
}
