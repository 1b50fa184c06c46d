import GRDB
@testable import Storage
import SyncCore
import Testing

/// A page that is read while a verdict comes: what that does stands in line behind who reads.
private final class PageMeanwhile: RecordPage, @unchecked Sendable {
    // Sendable: read once, by who applies it, and looked at after that.
    let records: [ServerRecord]
    let meanwhile: @Sendable () async throws -> Void
    private(set) var verdict: Task<Void, any Error>?

    init(_ records: [ServerRecord], _ meanwhile: @escaping @Sendable () async throws -> Void) {
        self.records = records
        self.meanwhile = meanwhile
    }

    var count: Int { records.count }

    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        guard verdict == nil else { return [] }
        verdict = Task { [meanwhile] in try await meanwhile() }
        return records
    }
}

/// Servers that make their own ids, where the answer that named a record was lost: what pages told meanwhile is of that record.
struct NamedLateTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    private func text(_ sql: String) throws -> [String] {
        try fixture.store.database.read { try String.fetchAll($0, sql: sql) }
    }

    /// The answer to what waits is lost.
    private func lose() async throws -> [String] {
        let keys = try await fixture.claim(ClaimLimits(merges: false)).keys
        for key in keys { try await fixture.settle((key, .unanswered)) }
        return keys
    }

    /// Asked again, it was done, and made what the server calls S1.
    private func told(_ key: String, _ version: Int64 = 2_000) -> Settlement.Outcome {
        .init(changeID: key, kind: .applied(version: version, overwrote: [:], serverID: "S1"), isRepeated: true)
    }

    private func settle(_ outcomes: Settlement.Outcome...) async throws {
        _ = try await fixture.claim()
        _ = try await fixture.store.settle(Settlement(outcomes: outcomes), claim: nil)
    }

    @Test("IDS-02, seed 489: what refers to it by the server's id refers to it by this device's, here or still to come")
    func references() async throws {
        try await fixture.applyBoard()
        try fixture.insertCard("mine")
        let keys = try await lose()
        try await fixture.apply(
            record("card", "S1", 2_000, ["name": "n", "idList": "l1"]),
            record("card", "c7", 2_001, ["name": "Here", "idList": "l1", "idTwin": "S1"]),
            record("card", "c8", 2_002, ["name": "Waits", "idList": "l9", "idTwin": "S1"]),
            record("card", "c9", 2_003, ["name": "Edited", "idList": "l1", "idTwin": "S1"]))
        // What is unsent on it says nothing of the reference.
        try fixture.sql("UPDATE card SET name = 'Mine' WHERE id = 'c9'")
        try await settle(told(keys[0]))
        #expect(try text("SELECT id || idTwin FROM card WHERE idTwin IS NOT NULL ORDER BY id") == ["c7mine", "c9mine"])
        try await fixture.drain(from: 3_000)
        try await fixture.apply(record("list", "l9", 3_001, ["name": "L", "idBoard": "b1"]))
        #expect(
            try text("SELECT id || idTwin FROM card WHERE idTwin IS NOT NULL ORDER BY id")
                == ["c7mine", "c8mine", "c9mine"])
        #expect(try text("SELECT id FROM card WHERE id = 'S1'").isEmpty)
    }

    @Test(
        "IDS-02, seeds 43326 and 43374 with `--single --conditions`: a verdict that names a record while its page is applied finds the row"
    )
    func namedMeanwhile() async throws {
        try await fixture.applyBoard()
        try fixture.insertCard("mine")
        let keys = try await fixture.claim().keys
        let store = fixture.store
        let page = PageMeanwhile([record("card", "S1", 2_000, ["name": "n", "idList": "l1"])]) {
            let made = Settlement.Outcome(
                changeID: keys[0], kind: .applied(version: 2_000, overwrote: [:], serverID: "S1"))
            _ = try await store.settle(Settlement(outcomes: [made]), claim: nil)
        }
        let from = try await store.position().checkpoint
        let first = try await store.apply(nextOf: page, maxRecords: 10, maxBytes: 1 << 20) { records in
            PageSlice(records: records, from: from, checkpoint: 2_000, epoch: Fixture.epoch, stamp: nil, scopes: nil)
        }
        #expect(first?.report.applied == 1)
        try await page.verdict?.value
        #expect(try text("SELECT id FROM card ORDER BY id") == ["c1", "mine"])
        #expect(try text("SELECT id FROM sync_record WHERE entity = 'card' ORDER BY id") == ["c1", "mine"])
        let end = try await store.apply(nextOf: page, maxRecords: 10, maxBytes: 1 << 20) { records in
            PageSlice(records: records, from: 2_000, checkpoint: 2_000, epoch: Fixture.epoch, stamp: nil, scopes: nil)
        }
        #expect(end == nil)
    }

    @Test("IDS-01 what the user wrote about a reference to it names it by the id that it had then: it waits for that")
    func referenceAtWork() async throws {
        try await fixture.applyBoard()
        try fixture.insertCard("mine")
        let keys = try await lose()
        try await fixture.apply(record("card", "S1", 2_000, ["name": "n", "idList": "l1"]))
        try fixture.sql("UPDATE card SET idTwin = 'S1' WHERE id = 'c1'")
        try await settle(told(keys[0]))
        #expect(try await fixture.store.failures().map(\.reason.code) == ["serverIDTaken"])
        try await fixture.drain(from: 2_001)
        #expect(try await fixture.store.retry(keys[0]) == keys[0])
        try await settle(told(keys[0]))
        #expect(try text("SELECT id || coalesce(idTwin, '') FROM card ORDER BY id") == ["c1mine", "mine"])
        #expect(try await fixture.store.failures().isEmpty)
    }

    @Test("IDS-01, seed 937: what another device moved under it, and this one elsewhere, stands under it in the end")
    func movedUnderIt() async throws {
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l2', 'L', 'b1', 1)")
        try await fixture.drain()
        try fixture.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        try fixture.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('mine', 'L', 'b1', 1)")
        let keys = try await lose()
        try await fixture.apply(
            record("list", "S1", 2_000, ["name": "L", "idBoard": "b1", "pos": 1.0]),
            record("card", "c1", 2_001, ["name": "Card", "idList": "S1"]))
        try await settle(
            .init(
                changeID: keys[0], kind: .merged(record("card", "c1", 1_990, ["idList": "l1"])),
                isRepeated: true),
            told(keys[1]))
        #expect(try text("SELECT id || idList FROM card") == ["c1mine"])
        #expect(try fixture.int("SELECT count(*) FROM sync_held") == 0)
    }

    @Test("IDS-01, seed 94: the user gave the one up that came by the server's id: this device's goes with it")
    func givenUpByTheOtherID() async throws {
        for ofRoots in [false, true] {
            let fixture = try Fixture()
            try await fixture.applyBoard()
            if ofRoots { try await fixture.store.setScopes([RecordKey("board", "b1")]) }
            try fixture.insertCard("mine")
            let keys = try await fixture.claim().keys
            try await fixture.settle((keys[0], .unanswered))
            let scopes = try await fixture.store.position().scopes
            _ = try await fixture.store.apply(
                PageSlice(
                    records: [record("card", "S1", 2_000, ["name": "n", "idList": "l1"])], from: 3, checkpoint: 2_000,
                    epoch: Fixture.epoch, scopes: scopes))
            try fixture.sql("DELETE FROM card WHERE id = 'S1'")
            _ = try await fixture.claim()
            _ = try await fixture.store.settle(Settlement(outcomes: [told(keys[0])]), claim: nil)
            #expect(try await fixture.store.failures().map(\.reason.code) == ["serverIDTaken"])
            try await fixture.drain(from: 2_001)
            _ = try await fixture.store.retry(keys[0])
            _ = try await fixture.claim()
            _ = try await fixture.store.settle(Settlement(outcomes: [told(keys[0])]), claim: nil)
            #expect(try fixture.int("SELECT count(*) FROM card WHERE id IN ('mine', 'S1')") == 0)
            #expect(try fixture.int("SELECT count(*) FROM sync_event WHERE kind = 'died' AND id = 'mine'") == 1)
            // The version that was held of the one is held of the other: it does not fall.
            #expect(try fixture.int("SELECT count(*) FROM sync_record WHERE id = 'S1'") == 0)
            #expect(try fixture.int("SELECT coalesce(max(version), 2002) FROM sync_record WHERE id = 'mine'") == 2_002)
            try await fixture.store.close()
        }
    }

    @Test(
        "IDS-01, seed 24366: deleted here before it was named, it comes back with all under it, also what stands under two"
    )
    func comesBackWhole() async throws {
        let schema = try Schema([
            EntitySchema("board", fields: [.text("name")]),
            EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
            EntitySchema(
                "note",
                fields: [
                    .parent("idList", "list"),
                    FieldSchema("idAbove", kind: .text, reference: Reference(entity: "note", isParent: true)),
                ]),
        ])
        let fixture = try Fixture(schema)
        try fixture.sql("INSERT INTO board (id, name) VALUES ('mine', 'A')")
        let keys = try await fixture.claim().keys
        try await fixture.settle((keys[0], .unanswered))
        try fixture.sql("DELETE FROM board")
        // What is found first by its list stands under what is found last.
        try await fixture.apply(
            record("board", "S1", 2_000, ["name": "A"]), record("list", "l1", 2_001, ["idBoard": "S1"]),
            record("list", "l2", 2_002, ["idBoard": "S1"]), record("note", "n1", 2_003, ["idList": "l2"]),
            record("note", "n2", 2_004, ["idList": "l1", "idAbove": "n1"]))
        try #require(try fixture.int("SELECT count(*) FROM note") == 2)
        _ = try await fixture.claim(ClaimLimits(maxChanges: 1))
        _ = try await fixture.store.settle(Settlement(outcomes: [told(keys[0], 1_000)]), claim: nil)
        #expect(try fixture.int("SELECT count(*) FROM board") == 0)
        #expect(try fixture.int("SELECT count(*) FROM sync_held") == 4)
        // Somebody else's edit was later than the delete.
        let delete = try await fixture.claim().keys
        try await fixture.settle((delete[0], .merged(record("board", "mine", 2_000, ["name": "A"]))))
        let notes = try await fixture.store.database.read {
            try String.fetchAll($0, sql: "SELECT id FROM note ORDER BY id")
        }
        #expect(notes == ["n1", "n2"])
        #expect(try fixture.int("SELECT count(*) FROM sync_held") == 0)
        try await fixture.store.close()
    }

    @Test("A record and what is under it come in an order in which each stands behind all of its parents")
    func order() {
        let under = [
            "b": ["l1", "l2"], "l1": ["n2"], "l2": ["n1", "n3"], "n1": ["n2"], "n3": ["n4"], "n4": ["n3"],
        ]
        let order = FamilyOrder.parentsFirst(RecordKey("x", "b")) { (under[$0.id] ?? []).map { RecordKey("x", $0) } }
        #expect(order.map(\.id) == ["b", "l1", "l2", "n1", "n2", "n3", "n4"])
    }

    @Test("DL-21, seed 550: a root that was asked for by an id that the server did not know is read from its beginning")
    func root() async throws {
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO board (id, name) VALUES ('mine', 'B')")
        let keys = try await lose()
        try await fixture.store.setScopes([RecordKey("board", "b1"), RecordKey("board", "mine")])
        let asked = try #require(try await fixture.store.position().scopes)
        _ = try await fixture.store.apply(
            PageSlice(records: [], from: 3, checkpoint: 2_000, epoch: Fixture.epoch, scopes: asked))
        let reached = try #require(try await fixture.store.position().scopes)
        #expect(reached == ["board:b1": 2_000, "board:mine": 2_000])
        try await settle(told(keys[0], 1_990))
        #expect(try await fixture.store.position().scopes == ["board:b1": 2_000, "board:mine": 0])
        // A page that was asked for before is none of it.
        let late = PageSlice(records: [], from: 3, checkpoint: 2_010, epoch: Fixture.epoch, scopes: reached)
        #expect(try await fixture.store.apply(late).wasDropped)
    }

    @Test("PRC-16, seed 1798: what a copy of the file asked by its own id is named beside its verdict")
    func toldBesideOthers() async throws {
        let told = record("list", "l2", 2_000, ["name": "Theirs", "idBoard": "b1"])
        for kind in [Settlement.Outcome.Kind.merged(told), .conflict(told, successor: nil)] {
            let fixture = try await Fixture.twoLists()
            let key = try await asked(fixture)
            _ = try await fixture.store.settle(
                Settlement(outcomes: [.init(changeID: key, kind: kind, serverID: "S1")]), claim: nil)
            #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l2")
            #expect(try fixture.rows("SELECT id FROM list WHERE id = 'S1'").isEmpty)
            #expect(try fixture.int("SELECT count(*) FROM card WHERE idList = 'l2'") == 1)
            try await fixture.store.close()
        }
    }

    @Test("PRC-16, seed 26334: a copy of the file had it made, edited and deleted: no edit repeated here revives it")
    func repeatedEditOfTheDead() async throws {
        try await fixture.applyBoard()
        try fixture.insertCard("mine")
        try fixture.sql("UPDATE card SET name = 'Mine' WHERE id = 'mine'")
        let keys = try await lose()
        try await fixture.apply(ServerRecord(key: RecordKey("card", "S1"), version: 2_003, presence: .deleted))
        try await settle(told(keys[0], 2_000))
        try await settle(
            .init(changeID: keys[1], kind: .applied(version: 2_001, overwrote: [:], serverID: nil), isRepeated: true))
        #expect(try text("SELECT id FROM card WHERE id = 'mine'").isEmpty)
        #expect(try text("SELECT kind FROM sync_event WHERE id = 'mine'") == ["died", "died"])
        #expect(try await fixture.store.held().isEmpty)
    }

    @Test("DL-09, seed 30885: what an older history had under the id that is given now is named by this device's")
    func namedInAnotherHistory() async throws {
        try await fixture.applyBoard()
        try fixture.insertCard("mine")
        try await fixture.store.beginFullPass(epoch: "e-2")
        let records = [
            record("board", "b1", 1, ["name": "Board"]),
            record("list", "l1", 2, ["name": "List", "idBoard": "b1"]),
            record("card", "c7", 3, ["name": "Here", "idList": "l1", "idTwin": "S1"]),
        ]
        _ = try await fixture.store.apply(PageSlice(records: records, from: 0, checkpoint: 3, epoch: "e-2"))
        _ = try await fixture.store.endFullPass(confirmed: true)
        let keys = try await fixture.claim().keys
        _ = try await fixture.store.settle(
            Settlement(outcomes: [
                .init(changeID: keys[0], kind: .applied(version: 4, overwrote: [:], serverID: "S1"))
            ]), claim: nil)
        #expect(try text("SELECT id || idTwin FROM card WHERE idTwin IS NOT NULL") == ["c7mine"])
    }

    @Test(
        "IDS-01, seed 32030: what a copy of this file had made there is named by this device's id, once its own create finds it there",
        arguments: [true, false])
    func madeByACopy(isTold: Bool) async throws {
        try await fixture.applyBoard()
        try fixture.insertCard("mine")
        // Not in the roots of this device, the card itself would not be told of.
        if isTold { try await fixture.apply(record("card", "S1", 2_000, ["name": "n", "idList": "l1"])) }
        try await fixture.apply(record("card", "c7", 2_001, ["name": "Here", "idList": "l1", "idTwin": "S1"]))
        let keys = try await fixture.claim().keys
        try await settle(
            .init(changeID: keys[0], kind: .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        #expect(try text("SELECT id || idTwin FROM card WHERE idTwin IS NOT NULL") == ["c7mine"])
        #expect(try text("SELECT id FROM card WHERE id = 'S1'").isEmpty)
    }

    /// An edit of a list that a page has brought by the server's id, too, with a card under it.
    private func asked(_ fixture: Fixture) async throws -> String {
        try await fixture.apply(
            record("list", "S1", 5, ["name": "Other", "idBoard": "b1"]),
            record("card", "c9", 6, ["name": "Theirs", "idList": "S1"]))
        try fixture.sql("UPDATE list SET name = 'Mine' WHERE id = 'l2'")
        return try #require(try await fixture.claim().keys.first)
    }
}
