import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

@Suite("The store as a change log") struct ChangeLogContractTests {
    @Test("each rule of the contract holds", arguments: ChangeLogContract.rules.indices)
    func rule(index: Int) async throws {
        let schema = try Schema(ChangeLogContract.entities)
        let file = try TestFile()
        let path = file.path
        let store = try Self.open(path, schema)
        let subject = ChangeLogSubject(
            log: store,
            write: { writes, isUnit in
                try await store.write(unit: isUnit) { db in
                    for local in writes { try Self.perform(local, db, schema) }
                }
            },
            // A second connection reads what the first one left, as the next process does.
            crash: { try Self.open(path, schema) })
        try await ChangeLogContract.rules[index].check(subject)
        withExtendedLifetime(file) {}
    }

    private static func open(_ path: String, _ schema: Schema) throws -> Store {
        try Store(
            path: path, schema: schema,
            configuration: StoreConfiguration(clock: FixedClock(), keySeed: 3, fixesTriggerClock: true))
    }

    /// A write as an app makes it, in SQL.
    private static func perform(_ local: LocalWrite, _ db: Database, _ schema: Schema) throws {
        let entity = try #require(schema[local.record.entity])
        let writer = RowWriter(entity)
        switch local.operation {
        case .create: try writer.upsert(db, local.record.id, local.values)
        case .update: try writer.update(db, local.record.id, local.values)
        case .delete: try writer.delete(db, local.record.id)
        }
    }
}
