import GRDB
import Storage
import SyncCore
import Testing

@Suite("Another history")
struct FullPassTests: AskingForRoots {
    private func boards(_ f: Fixture, _ count: Int) async throws {
        for n in 1...count { try await f.apply(record("board", "b\(n)", Int64(n), ["name": .string("B\(n)")])) }
    }

    private func pass(_ f: Fixture, epoch: String, _ records: ServerRecord...) async throws {
        try await f.store.beginFullPass(epoch: epoch)
        let last = records.map(\.version).max() ?? 0
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: last, epoch: epoch))
    }

    @Test("DL-11 a full pass keeps the queue, removes what it did not bring, and counts versions anew")
    func removes() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        try await f.store.beginFullPass(epoch: "e-2")
        var position = try await f.store.position()
        #expect(position.checkpoint == 0 && position.isInFullPass && position.epoch == "e-2")
        let records = (1...9).map { record("board", "b\($0)", 1, ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 1, epoch: "e-2"))
        #expect(try f.int("SELECT count(*) FROM board") == 10)
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(1))
        position = try await f.store.position()
        #expect(!position.isInFullPass && position.checkpoint == 1)
        #expect(try f.text("SELECT group_concat(id, '') FROM board") == "b1b2b3b4b5b6b7b8b9")
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Mine")
        #expect(try f.changes().count == 1)
    }

    @Test(
        "DL-11 seed 59411: what is edited here, and that history does not have, is dead there although its row needs some of it"
    )
    func editedAndNotThere() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try await pass(f, epoch: "e-2", record("board", "b1", 1, ["name": "Board"]))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.text("SELECT name || idBoard FROM list") == "Mineb1")
        #expect(try await f.store.held() == [])
        // Another device makes it again, and does not say where it stands.
        _ = try await f.store.apply(
            PageSlice(
                records: [record("list", "l1", 3, ["name": "Theirs", "idBoard": "b1"])], from: 1, checkpoint: 3,
                epoch: "e-2"))
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(4)))
        #expect(try f.text("SELECT name FROM list") == "Mine")
        #expect(try f.text("SELECT pos FROM list") == nil)
    }

    @Test(
        "DL-09 DL-11 seed 59411: what stays of the history before for what is unsent under it, and is made again, is as it is made",
        arguments: [false, true])
    func stayedAndMadeAgain(isMerged: Bool) async throws {
        let f = try await Fixture.twoLists()
        try f.sql("INSERT INTO card (id, name, idList, pos) VALUES ('c9', 'Card', 'l1', 9)")
        try await pass(f, epoch: "e-2", record("board", "b1", 1, ["name": "Board"]))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.text("SELECT pos FROM list") != nil, "it shows on, as it was")
        let lost = try await f.store.conflicts().filter { $0.kind == "lostByServer" && $0.record.id == "l1" }
        #expect(lost.count == 1)
        // Another device makes it again, and does not say where it stands; then this one's edit is done.
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        let theirs = record("list", "l1", 6, ["name": "Mine", "idBoard": "b1"])
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(5)), (claim.keys[1], isMerged ? .merged(theirs) : .applied(6)))
        _ = try await f.store.apply(PageSlice(records: [theirs], from: 1, checkpoint: 6, epoch: "e-2"))
        #expect(try f.text("SELECT name FROM list") == "Mine")
        #expect(try f.text("SELECT pos FROM list") == nil)
        #expect(try f.text("SELECT id FROM card") == "c9")
        #expect(try await f.store.conflicts().filter { $0.kind == "lostByServer" && $0.record.id == "l1" }.count == 1)
    }

    @Test("DL-11 seed 58: what another history does not have goes once the last edit that kept it is refused")
    func goesWithTheLastEdit() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        let edit = try await f.claim()
        try await f.settle((edit.keys[0], .refused("notFound")))
        try f.sql("INSERT INTO card (id, name, idList, pos) VALUES ('c9', 'Card', 'l1', 9)")
        let card = try await f.claim()
        try await f.settle((card.keys[0], .refused("invalidReference")))
        try await pass(f, epoch: "e-2", record("board", "b1", 1, ["name": "Board"]))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.text("SELECT id FROM list") == "l1", "a card that is unsent is in it")
        _ = try await f.store.retry(edit.keys[0])
        _ = try await f.store.discard(card.keys[0])
        let again = try await f.claim()
        try #require(again.told == ["update list l1"])
        try await f.settle((again.keys[0], .refused("notFound")))
        #expect(try f.text("SELECT id FROM list") == nil)
    }

    @Test("DL-11 seed 81660: what another history does not have stays lost as a refused delete of it is tried again")
    func deletedAgainWhileItStays() async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let delete = try await f.claim()
        try #require(delete.told == ["delete card c1", "delete list l1"])
        try await f.settle((delete.keys[0], .applied(5)), (delete.keys[1], .refused()))
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList, pos) VALUES ('c9', 'Card', 'l1', 9)")
            try db.execute(sql: "UPDATE list SET name = 'in' WHERE id = 'l1'")
        }
        let unit = try await f.claim()
        try await f.settle((unit.keys[0], .refused("missingReference")), (unit.keys[1], .refused("transaction")))
        try await pass(f, epoch: "e-2", record("board", "b2", 1, ["name": "Other"]))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.text("SELECT id FROM list") == "l1", "a card that is unsent is in it")
        _ = try await f.store.retry(delete.keys[1])
        _ = try await f.store.discard(unit.keys[0])
        let again = try await f.claim()
        try #require(again.told == ["delete list l1"])
        try await f.settle((again.keys[0], .applied(version: nil, overwrote: [:], serverID: nil)))
        #expect(try await f.store.held() == [])
        // Somebody makes the board anew; nothing waited for it.
        _ = try await f.store.apply(
            PageSlice(records: [record("board", "b1", 2, ["name": "New"])], from: 1, checkpoint: 2, epoch: "e-2"))
        #expect(try f.text("SELECT id FROM list") == nil)
    }

    @Test(
        "DL-09 seed 101709: what was deleted here, and stays in another history, shows no value that was never written in that"
    )
    func deletedAndStays() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET closed = 1 WHERE id = 'c1'")
        try await f.drain(from: 3)
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let list = record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0])
        let card = record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1])
        // The card waits for its list, which is deleted here.
        try await pass(f, epoch: "e-2", record("board", "b1", 1, ["name": "Board"]), list, card)
        _ = try await f.store.endFullPass(confirmed: true)
        let deletes = try await f.claim()
        try #require(deletes.told == ["delete card c1", "delete list l1"])
        try await f.settle((deletes.keys[0], .merged(card)), (deletes.keys[1], .merged(list)))
        #expect(try f.card("name") == "Card")
        #expect(try f.card("closed") == nil)
    }

    @Test("DL-10 an empty pass, or the loss of more than a fifth, waits for the app's word")
    func guarded() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.store.beginFullPass(epoch: "e-2")
        #expect(try await f.store.endFullPass(confirmed: false) == .awaitsConfirmation(missing: 10, of: 10))
        #expect(try await f.store.position().awaitsConfirmation)
        #expect(try f.int("SELECT count(*) FROM board") == 10)
        let records = (1...7).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 7, epoch: "e-2"))
        #expect(try await f.store.endFullPass(confirmed: false) == .awaitsConfirmation(missing: 3, of: 10))
        #expect(try await f.store.endFullPass(confirmed: true) == .removed(3))
        #expect(try f.int("SELECT count(*) FROM board") == 7)
        #expect(try await !f.store.position().awaitsConfirmation)
    }

    @Test(
        "DL-09 what was in step and comes otherwise, or not at all, is journalled with its values, and can be sent again"
    )
    func journalled() async throws {
        let f = try Fixture()
        try await f.applyOlderHistory()
        let lost = try await f.store.conflicts().filter { $0.kind == "lostByServer" }
        #expect(lost.count == 2)
        let field = try #require(lost.first { $0.field == "name" })
        #expect(field.mine == "B1" && field.theirs == "Old")
        #expect(lost.contains { $0.record == RecordKey("board", "b10") && $0.field == nil })
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Old")
        #expect(try await f.store.restoreLost() == 2)
        #expect(try f.changes().map(\.operation) == [.update, .create])
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "B1")
        #expect(try await f.store.restoreLost() == 0)
    }

    @Test("DL-09 what cannot be sent again keeps nothing else from it, and writes nothing over that came since")
    func partlyRestored() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.apply(list("l1", 11, in: "b1"), list("l2", 12, in: "b10"), list("l3", 13, in: "b3"))
        try await f.store.beginFullPass(epoch: "e-2")
        // Neither the lists nor the last board are there, and of two boards older names.
        let records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": $0 < 3 ? "Old" : .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 9, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b2'")
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        // What is gone is made anew by the user and deleted again, neither of which the server has heard.
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l3', 'L', 'b3', 1)")
        try f.sql("DELETE FROM list WHERE id = 'l3'")
        // The second list comes back with its board; the first one has none, and the second board's name is newer.
        #expect(try await f.store.restoreLost() == 2)
        #expect(try f.text("SELECT group_concat(id) FROM list") == "l2")
        #expect(try f.text("SELECT name FROM board WHERE id = 'b2'") == "Mine")
        let left = try await f.store.conflicts().filter { $0.kind == "lostByServer" }.map(\.record.id)
        #expect(Set(left) == ["l1", "l3", "b1", "b2"])
    }

    @Test("DL-09, seed 2798: what the user has written himself is not written over, and be it what the server has")
    func writtenAsTheServerHasIt() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try f.sql("UPDATE board SET name = 'Old' WHERE id = 'b1'")
        try await f.store.beginFullPass(epoch: "e-2")
        let names = (1...10).map { $0 < 3 ? "Old" : "B\($0)" }
        let records = zip(1..., names).map { record("board", "b\($0)", Int64($0), ["name": .string($1)]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 10, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try await f.store.lostByServer() == 2)
        #expect(try await f.store.restoreLost() == 1)
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Old")
        #expect(try f.text("SELECT name FROM board WHERE id = 'b2'") == "B2")
        #expect(try await f.store.lostByServer() == 1)
    }

    @Test("DL-09 a delete that the server had done, and has not any more, is journalled, and can be done again")
    func lostDelete() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.apply(list("l9", 11, in: "b1"), list("l8", 12, in: "b2"))
        try f.sql("DELETE FROM list WHERE id = 'l9'")
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        let keys = try await f.claim().keys
        try await f.settle((keys[0], .applied(13)), (keys[1], .applied(14)))
        try await f.store.beginFullPass(epoch: "e-2")
        let records = (1...10).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(
            PageSlice(
                records: records + [list("l9", 11, in: "b1"), list("l8", 12, in: "b2")], from: 0, checkpoint: 12,
                epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: false)
        let lost = try await f.store.conflicts().filter { $0.kind == "lostByServer" }
        #expect(lost.map(\.record) == [RecordKey("list", "l9"), RecordKey("board", "b1")])
        #expect(lost.allSatisfy { $0.mine == .null && $0.winner == "theirs" })
        _ = try await f.store.restoreLoser(try #require(lost.first).number)
        #expect(try f.text("SELECT id FROM list WHERE id = 'l9'") == nil)
        // What the app's tables do not let go keeps its entry.
        try f.sql(
            "CREATE TRIGGER kept BEFORE DELETE ON board WHEN OLD.id = 'b1' BEGIN SELECT RAISE(ABORT, 'kept'); END")
        #expect(try await f.store.restoreLost() == 0)
        try f.sql("DROP TRIGGER kept")
        #expect(try await f.store.restoreLost() == 1)
        #expect(try await f.claim().told == ["delete list l9", "delete board b1"])
        #expect(try f.text("SELECT group_concat(id) FROM list") == "l8")
    }

    @Test(
        "DL-09, seed 146 with the reference server: a lost delete is not done again over what the user has written since"
    )
    func lostDeleteEdited() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        try await f.settle((f.claim().keys[0], .applied(13)))
        try await pass(f, epoch: "e-2", record("board", "b1", 1, ["name": "B1"]))
        _ = try await f.store.endFullPass(confirmed: true)
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        #expect(try await f.store.conflicts().contains { $0.kind == "lostByServer" && $0.mine == .null })
        _ = try await f.store.restoreLost()
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Mine")
        #expect(try await f.store.conflicts().contains { $0.kind == "lostByServer" && $0.mine == .null })
    }

    @Test("DL-09 what is lost, and was made again by somebody, is written over that where it is restored")
    func lostAndMadeElsewhere() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.store.beginFullPass(epoch: "e-2")
        let records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 9, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: false)
        let lost = try #require(try await f.store.conflicts().first { $0.kind == "lostByServer" })
        _ = try await f.store.apply(
            PageSlice(records: [record("board", "b10", 10, ["name": "Theirs"])], from: 9, checkpoint: 10, epoch: "e-2"))
        #expect(try await f.store.restoreLoser(lost.number) == RecordKey("board", "b10"))
        #expect(try f.text("SELECT name FROM board WHERE id = 'b10'") == "B10")
        #expect(try await f.claim().told == ["update board b10"])
    }

    @Test(
        "DL-09, IDS-01, seed 113811: what was lost under the server's id comes back under the one that it has here since",
        arguments: [false, true])
    func lostAndNamed(isByNumber: Bool) async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.apply(record("list", "S1", 11, ["name": "L", "idBoard": "b10", "pos": 1.0]))
        try await f.store.beginFullPass(epoch: "e-2")
        let records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 9, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        try f.sql("INSERT INTO sync_identity VALUES ('list', 'l1', 'S1'), ('board', 'own', 'b10')")
        if isByNumber {
            let lost = try await f.store.conflicts().filter { $0.kind == "lostByServer" }
            for name in ["board", "list"] {
                let number = try #require(lost.first { $0.record.entity == name }).number
                let named = try await f.store.restoreLoser(number)
                #expect(named == RecordKey(name, name == "board" ? "own" : "l1"))
            }
        } else {
            #expect(try await f.store.restoreLost() == 2)
        }
        #expect(try f.text("SELECT idBoard FROM list") == "own")
        #expect(try f.text("SELECT group_concat(id) FROM list") == "l1")
        #expect(try f.text("SELECT name FROM board WHERE id = 'own'") == "B10")
    }

    @Test("IDS-01 a reference that lost comes back under the id that its record has here since")
    func losingReferenceNamedSince() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        let key = try await f.claim().keys[0]
        try await f.settle((key, .merged(record("card", "c1", 9, ["name": "Card", "idList": "l1", "pos": 1.0]))))
        let lost = try #require(try await f.store.conflicts().first { $0.field == "idList" })
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('own', 'L', 'b1', 1)")
        try f.sql("INSERT INTO sync_identity VALUES ('list', 'own', 'l2')")
        try await f.store.restoreLoser(lost.number)
        #expect(try f.card("idList") == "own")
    }

    @Test("DL-09 what is lost and stays for what is unsent under it is made anew where it is, and its child follows")
    func lostOverUnsent() async throws {
        for isByNumber in [true, false] {
            let f = try Fixture()
            try await boards(f, 10)
            try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('n', 'N', 'b10', 1)")
            try await f.store.beginFullPass(epoch: "e-2")
            let records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
            _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 9, epoch: "e-2"))
            _ = try await f.store.endFullPass(confirmed: false)
            let create = try await f.claim().keys[0]
            try await f.settle((create, .refused("missingReference")))
            let lost = try #require(try await f.store.conflicts().first { $0.kind == "lostByServer" })
            if isByNumber {
                #expect(try await f.store.restoreLoser(lost.number) == RecordKey("board", "b10"))
                await #expect(throws: StoreFailure.self) { try await f.store.restoreLoser(lost.number) }
            } else {
                #expect(try await f.store.restoreLost() == 1)
                #expect(try await f.store.restoreLost() == 0)
            }
            _ = try await f.store.retry(create)
            for (step, version) in [("create board b10", Int64(10)), ("create list n", 11)] {
                let claim = try await f.claim()
                try #require(claim.told == [step])
                try await f.settle((claim.keys[0], .applied(version)))
            }
            #expect(try f.text("SELECT name FROM board WHERE id = 'b10'") == "B10")
            #expect(try f.text("SELECT name FROM list WHERE id = 'n'") == "N")
            #expect(try await f.store.position().held == 0)
            #expect(try f.queued() == 0)
        }
    }

    @Test("A pass of the same history journals nothing: what it does not bring was deleted")
    func sameEpoch() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.store.beginFullPass(epoch: nil)
        let records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": "New"]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 12, epoch: Fixture.epoch))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(1))
        #expect(try await f.store.conflicts().isEmpty)
    }

    @Test("DL-04 a pass that was cut off goes on where it was; a page of the history before is dropped")
    func resumes() async throws {
        let f = try Fixture()
        try await boards(f, 3)
        try await pass(f, epoch: "e-2", record("board", "b1", 1, ["name": "B1"]))
        let late = PageSlice(records: [record("board", "b9", 9, ["name": "X"])], from: 0, checkpoint: 9, epoch: "e-1")
        #expect(try await f.store.apply(late).wasDropped)
        try await f.store.close()
        let g = try Fixture(file: f.file)
        #expect(try await g.store.position().isInFullPass)
        #expect(try await g.store.position().checkpoint == 1)
        let rest = (2...3).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await g.store.apply(PageSlice(records: rest, from: 1, checkpoint: 3, epoch: "e-2"))
        #expect(try await g.store.endFullPass(confirmed: false) == .removed(0))
    }

    @Test("A change of an earlier epoch is first sent without a base version")
    func baseVersion() async throws {
        let f = try Fixture()
        try await boards(f, 2)
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        try await pass(
            f, epoch: "e-2", record("board", "b1", 1, ["name": "B1"]), record("board", "b2", 2, ["name": "B2"]))
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b2'")
        let claim = try await f.store.settle(Settlement(), claim: ClaimLimits())
        #expect(claim.changes.map(\.change.baseVersion) == [nil, 2])
    }

    @Test("What is not brought and has unsent changes stays until they are decided")
    func unsentStays() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b10'")
        try await f.store.beginFullPass(epoch: "e-2")
        let records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 9, epoch: "e-2"))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(0))
        #expect(try f.text("SELECT name FROM board WHERE id = 'b10'") == "Mine")
        let claim = try await f.store.settle(Settlement(), claim: ClaimLimits())
        let reason = SetAsideReason(code: "notFound", message: "no such board")
        _ = try await f.store.settle(
            Settlement(outcomes: [
                .init(changeID: claim.changes[0].change.id, kind: .setAside(reason, staysUncertain: false))
            ]),
            claim: nil)
        #expect(try f.int("SELECT count(*) FROM board WHERE id = 'b10'") == 0)
        #expect(try await f.store.failures().count == 1)
    }

    @Test(
        "DL-09 a backup put back under the same epoch: what it does not have of what was acknowledged is journalled, too"
    )
    func sameEpochGiven() async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await pass(
            f, epoch: Fixture.epoch, record("board", "b1", 1, ["name": "Old"]),
            record("board", "b2", 2, ["name": "B2"]))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.int("SELECT count(*) FROM sync_conflict WHERE kind = 'lostByServer' AND field IS NULL") == 8)
        #expect(try f.text("SELECT mine FROM sync_conflict WHERE kind = 'lostByServer' AND field = 'name'") == "\"B1\"")
        #expect(try await f.store.restoreLost() == 9)
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "B1")
        #expect(try f.int("SELECT count(*) FROM board") == 10)
    }

    @Test(
        "DL-09 a record that another history does not have, with an edit that it refuses, is made again from the journal"
    )
    func editedAndLost() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try await pass(
            f, epoch: "e-2", record("board", "b1", 1, ["name": "Board"]),
            record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]))
        _ = try await f.store.endFullPass(confirmed: true)
        let claim = try await f.claim()
        try #require(claim.told == ["update card c1"])
        try await f.settle((claim.keys[0], .refused("notFound")))
        #expect(try !f.hasCard())
        #expect(try await f.store.restoreLost() == 1)
        #expect(try f.card("name") == "Card")
        #expect(try f.card("votes") == "1")
        #expect(try await f.claim().told == ["create card c1"])
    }

    @Test("What was acknowledged while a pass runs stays, though the pass leaves it out", arguments: [nil, "e-2"])
    func acknowledged(epoch: String?) async throws {
        let f = try Fixture()
        try await boards(f, 10)
        try await f.store.beginFullPass(epoch: epoch)
        try f.sql("INSERT INTO board (id, name) VALUES ('new', 'N')")
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b10'")
        let claim = try await f.store.settle(Settlement(), claim: ClaimLimits())
        let outcomes = zip(claim.changes, [21, 22]).map { change, version in
            Settlement.Outcome(
                changeID: change.change.id, kind: .applied(version: Int64(version), overwrote: [:], serverID: nil))
        }
        _ = try await f.store.settle(Settlement(outcomes: outcomes), claim: nil)
        var records = (1...9).map { record("board", "b\($0)", Int64($0), ["name": .string("B\($0)")]) }
        // In another history the update went without a base version: then its record may not be left out.
        #expect((claim.changes[1].change.baseVersion == nil) == (epoch != nil))
        if epoch != nil { records.append(record("board", "b10", 22, ["name": "Mine"])) }
        _ = try await f.store.apply(
            PageSlice(records: records, from: 0, checkpoint: 22, epoch: epoch ?? Fixture.epoch))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(0))
        #expect(try f.int("SELECT count(*) FROM board") == 11)
    }

    @Test("A record that was held before a pass, and that it does not bring, does not come with its parent later")
    func heldBefore() async throws {
        let f = try Fixture()
        try await boards(f, 1)
        try await f.apply(record("list", "l1", 5, ["name": "L", "idBoard": "b9"]))
        #expect(try await f.store.position().held == 1)
        try await f.store.beginFullPass(epoch: "e-2")
        let records = [record("board", "b1", 1, ["name": "B1"]), record("board", "b9", 2, ["name": "B9"])]
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 2, epoch: "e-2"))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(0))
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.position().held == 0)
    }
}
