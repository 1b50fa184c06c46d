import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@Suite struct ConflictFigureTests {
    private static let entities = [
        EntitySchema("card", fields: [.text("name"), .real("pos")])
    ]

    private func store() throws -> (Store, URL) {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("conflict-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var configuration = StoreConfiguration()
        configuration.clock = ManualWallClock()
        let store = try Store(
            path: folder.appendingPathComponent("d.sqlite").path, schema: Schema(Self.entities),
            configuration: configuration)
        return (store, folder)
    }

    private func page(_ version: Int64, _ id: String, _ name: String, _ pos: Double) -> PageSlice {
        let record = ServerRecord(
            key: RecordKey("card", id), version: version, fields: ["name": .string(name), "pos": .double(pos)])
        return PageSlice(records: [record], from: version - 1, checkpoint: version, epoch: "e-1")
    }

    /// A card that is edited here and there: a conflict of both fields, this device's value stands.
    private func conflict(_ store: Store, _ id: String, at version: Int64, theirs: Double) async throws {
        _ = try await store.apply(page(version, id, "base", 0))
        try await store.write { db in
            try db.execute(sql: "UPDATE card SET name = 'mine', pos = 10 WHERE id = ?", arguments: [id])
        }
        _ = try await store.apply(page(version + 1, id, "theirs", theirs))
    }

    @Test("Conflicts are counted for each entity and field, with who won and how far numbers were apart")
    func figures() async throws {
        let (store, folder) = try store()
        try await conflict(store, "c-1", at: 1, theirs: 14)
        try await conflict(store, "c-2", at: 3, theirs: 2)
        let figures = try await store.conflictFigures()
        #expect(figures.map(\.field) == ["name", "pos"])
        #expect(figures.allSatisfy { $0.entity == "card" && $0.count == 2 && $0.records == 2 && $0.wonHere == 2 })
        let pos = try #require(figures.last)
        #expect(pos.meanDistance == 6)
        #expect(pos.greatestDistance == 8)
        #expect(figures.first?.meanDistance == nil)
        try await store.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("A loser that is restored is a new change, the entry stays, and an event tells")
    func restored() async throws {
        let (store, folder) = try store()
        try await conflict(store, "c-1", at: 1, theirs: 14)
        let before = try await store.queued().count
        let entry = try #require(try await store.conflicts().first { $0.field == "name" })
        #expect(try await store.restoreLoser(entry.number) == RecordKey("card", "c-1"))
        let name = try await store.database.read { try String.fetchOne($0, sql: "SELECT name FROM card") }
        #expect(name == "theirs")
        let queued = try await store.queued()
        #expect(queued.count == before + 1)
        #expect(queued.last?.change.fields["name"]?.new == "theirs")
        #expect(try await store.conflicts().contains { $0.number == entry.number })
        #expect(try await store.events().contains { $0.kind == "restored" })
        for number in [Int64(999), -1] {
            do throws(StoreFailure) {
                _ = try await store.restoreLoser(number)
                Issue.record("there is no such conflict")
            } catch {
                #expect(error.kind == .notFound)
            }
        }
        try await store.close()
        try FileManager.default.removeItem(at: folder)
    }
}
