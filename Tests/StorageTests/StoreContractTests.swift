import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

@Suite("The store keeps the contracts of its seams")
struct StoreContractTests {
    @Test("record store", arguments: RecordStoreContract.rules.indices)
    func recordStore(rule: Int) async throws {
        let schema = try Schema(RecordStoreContract.entities)
        let f = try Fixture(schema)
        let store = f.store
        try await RecordStoreContract.rules[rule].check(
            RecordStoreSubject(
                store: store,
                row: { key in
                    guard let entity = schema[key.entity] else { return nil }
                    return try await store.database.read { try RowWriter(entity).read($0, key.id) }
                },
                write: { key, fields in
                    guard let entity = schema[key.entity] else { return }
                    try await store.write { db in
                        if try RowWriter(entity).exists(db, key.id) {
                            try RowWriter(entity).update(db, key.id, fields)
                        } else {
                            try RowWriter(entity).upsert(db, key.id, fields)
                        }
                    }
                },
                failDisk: { fails in
                    try await store.database.writeWithoutTransaction { db in
                        let pages = fails ? try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0 : 1_000_000
                        try db.execute(sql: "PRAGMA max_page_count = \(pages)")
                    }
                }))
        try await store.close()
    }

    @Test("download log", arguments: DownloadLogContract.rules.indices)
    func downloadLog(rule: Int) async throws {
        let f = try Fixture()
        try await DownloadLogContract.rules[rule].check(f.store)
        try await f.store.close()
    }

    @Test("state log", arguments: StateLogContract.rules.indices)
    func stateLog(rule: Int) async throws {
        let schema = try Schema([
            EntitySchema("board", fields: [.text("name")]), EntitySchema("card", fields: [.parent("idBoard", "board")]),
        ])
        let f = try Fixture(schema)
        let store = f.store
        try await StateLogContract.rules[rule].check(
            StateLogSubject(log: store) { key, ancestors, counts in
                try await store.database.write { db in
                    try RowWriter.applying(db) {
                        for parent in ancestors { try RowWriter(schema[parent.entity]!).upsert(db, parent.id, [:]) }
                        let fields: [String: FieldValue] = ancestors.first.map { ["idBoard": .string($0.id)] } ?? [:]
                        try RowWriter(schema[key.entity]!).upsert(db, key.id, fields)
                    }
                    let states = [(4, counts.failed), (2, counts.uploading), (0, counts.waiting)]
                    for (state, count) in states {
                        for _ in 0..<count {
                            let found = FoundChange(
                                record: key, operation: .update, fields: ["name": FieldDelta(old: nil, new: "x")])
                            try FoundChanges.add(db, found, schema, now: 1)
                            try db.execute(
                                sql:
                                    "UPDATE sync_change SET state = ? WHERE position = (SELECT max(position) FROM sync_change)",
                                arguments: [state])
                        }
                    }
                }
            })
        try await store.close()
    }

    @Test("map of ids", arguments: IDTranslationContract.rules.indices)
    func idTranslation(rule: Int) async throws {
        let schema = try Schema(IDTranslationContract.entities)
        let f = try Fixture(schema)
        let store = f.store
        try await IDTranslationContract.rules[rule].check(
            IDTranslationSubject(translation: store) { record, serverID in
                guard let entity = schema[record.entity] else { return }
                try await store.write { db in try RowWriter(entity).upsert(db, record.id, ["name": "x"]) }
                let claim = try await store.settle(Settlement(), claim: ClaimLimits())
                let outcomes = claim.changes.map {
                    Settlement.Outcome(
                        changeID: $0.change.id, kind: .applied(version: 1, overwrote: [:], serverID: serverID))
                }
                _ = try await store.settle(Settlement(outcomes: outcomes), claim: nil)
            })
        try await store.close()
    }
}
