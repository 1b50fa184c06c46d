import GRDB
@testable import Storage
import SyncCore
import Testing

/// The tables that are made when the first handler of the app's own has something to be told, or has built something.
@Suite struct HandlerTablesTests {
    @Test(
        "Seed 94 of those with handlers: another process made the table, and this one goes on",
        arguments: [false, true])
    func madeByAnother(isPayload: Bool) async throws {
        let file = try TestFile()
        let stores = [
            try Store(path: file.path, schema: boardSchema()), try Store(path: file.path, schema: boardSchema()),
        ]
        for (place, store) in stores.enumerated() {
            store.keepUntold(of: ["board"])
            // Each looks before there is anything.
            #expect(try await store.lastUntold() == 0)
            #expect(try await store.payloads(of: ["k"]).isEmpty)
            if place == 1 { #expect(try await stores[0].lastUntold() == 0) }
        }
        for (place, store) in stores.enumerated() {
            if isPayload {
                let change = Change(
                    id: "k\(place)", sequence: 1, record: RecordKey("board", "b\(place)"), operation: .update,
                    stamp: .zero,
                    fields: ["name": FieldDelta(old: nil, new: "n")])
                try await store.keepPayloads([change])
            } else {
                let number = Int64(place + 1)
                _ = try await store.apply(
                    PageSlice(
                        records: [record("board", "b\(place)", number, ["name": "n"])], from: number - 1,
                        checkpoint: number,
                        epoch: Fixture.epoch))
            }
        }
        for store in stores {
            if isPayload {
                #expect(try await store.payloads(of: ["k0", "k1"]).count == 2)
            } else {
                #expect(try await store.untold(after: 0, limit: 9).map(\.record.key.id) == ["b0", "b1"])
            }
        }
        for store in stores { try await store.close() }
    }

    @Test("What is put back may be merged with what is written later: what was built for it is built anew")
    func putBack() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        for name in ["A", "B"] {
            try f.sql("UPDATE card SET name = ?", [name])
            try f.sql("UPDATE list SET name = ?", [name])
        }
        let claim = try await f.claim(ClaimLimits(merges: false))
        try #require(claim.changes.count == 4)
        try await f.store.keepPayloads(claim.changes.map(\.change))
        try await f.store.putBack(claim)
        #expect(try await f.store.payloads(of: claim.keys).isEmpty)
        #expect(try await f.store.queued().map(\.state) == [.pending, .pending, .pending, .pending])
    }

    @Test(
        "Seed 866 of those with handlers: what waits to be shown has left where a pass begins anew, or fewer roots are asked for",
        arguments: [false, true])
    func waiting(choosesRoots: Bool) async throws {
        let f = try Fixture()
        f.store.keepUntold(of: ["card"])
        try await f.applyBoard()
        try await f.apply(record("card", "c9", 9, ["name": "Waits", "idList": "l9"]))
        func told() async throws -> [String] {
            try await f.store.untold(after: 0, limit: 9).map { "\($0.record.presence) \($0.record.key.id)" }
        }
        #expect(try await told() == ["live c1", "live c9"])
        try await f.store.beginFullPass(epoch: nil)
        #expect(try await told() == ["live c1", "gone c9"])
        guard choosesRoots else { return }
        let waiting = record("card", "c9", 9, ["name": "Waits", "idList": "l9"])
        let first = PageSlice(records: [waiting], from: 0, checkpoint: 9, epoch: Fixture.epoch, hasMore: true)
        _ = try await f.store.apply(first)
        #expect(try await told() == ["live c1", "live c9"])
        try await f.store.setScopes([RecordKey("board", "b1")])
        #expect(try await told() == ["live c1", "gone c9"])
    }

    @Test("Seeds 277 and 720 of those with handlers: what goes as a change is settled or given up has left")
    func leaves() async throws {
        let f = try Fixture()
        f.store.keepUntold(of: ["card"])
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("forbidden")))
        try await f.apply(ServerRecord(key: RecordKey("list", "l1"), version: 9, presence: .deleted))
        let failed = try await f.store.failures().map(\.queued.change.id)
        for key in failed { _ = try await f.store.discard(key) }
        #expect(try !f.hasCard())
        #expect(try await f.store.untold(after: 0, limit: 9).map(\.record.presence) == [.gone])
    }

    @Test(
        "Seed 170037 with `--rest --handlers --damage`: a verdict tells a record that is not here, while an edit of it waits; it has left, and the last word says so"
    )
    func toldAway() async throws {
        let f = try Fixture()
        f.store.keepUntold(of: ["card"])
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = 5 WHERE id = 'c1'")
        let first = try await f.claim(ClaimLimits(maxChanges: 1)).keys[0]
        // As a damaged file leaves it: the edit is saved, the row is not, and nothing is known of the record.
        try await f.store.database.write { db in
            try RowWriter.applying(db) { try db.execute(sql: "DELETE FROM card WHERE id = 'c1'") }
            try StoredRecord(version: 0, base: .away).write(db, RecordKey("card", "c1"))
        }
        try await f.store.setScopes([RecordKey("board", "b9")])
        func told() async throws -> [ServerRecord.Presence] {
            try await f.store.untold(after: 0, limit: 9).map(\.record.presence)
        }
        let theirs = record("card", "c1", 7, ["name": "Card", "idList": "l1", "votes": 10])
        let successor = ["votes": FieldDelta(old: 10, new: 14, rule: .sum)]
        try await f.settle((first, .conflict(theirs, successor: successor)))
        #expect(try await told() == [.gone])
        try await f.settle((try await f.claim().keys[0], .applied(8)))
        #expect(try !f.hasCard())
        #expect(try await told() == [.gone])
    }
}
