import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

/// Records that stand between what a builder reads and what it is about, when they move.
@Suite("Paths of derived data")
struct SnapshotPathTests {
    private static let entities = [
        EntitySchema("board", fields: [.text("name")]),
        EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name")]),
        EntitySchema("card", fields: [.parent("idList", "list"), .text("name")]),
    ]

    private static func table(
        _ name: String, subject: String, dependsOn: [SnapshotBuilder.Dependency], count: String
    ) -> SnapshotBuilder {
        SnapshotBuilder(
            name, subject: subject, dependsOn: dependsOn,
            setUp: { db in
                try db.execute(sql: "DROP TABLE IF EXISTS \(name)")
                try db.execute(sql: "CREATE TABLE \(name) (id TEXT PRIMARY KEY NOT NULL, cards INTEGER NOT NULL)")
            },
            rebuild: { db, ids in
                for id in ids {
                    try db.execute(sql: "DELETE FROM \(name) WHERE id = ?", arguments: [id])
                    try db.execute(
                        sql: "INSERT INTO \(name) SELECT id, (\(count)) FROM \(subject) WHERE id = ?", arguments: [id])
                }
            })
    }

    /// The cards of each board: read straight from the cards, or summed up over the lists.
    private static let straight = [
        table(
            "boardCount", subject: "board", dependsOn: [.entity("board"), .entity("card", ["idList", "idBoard"])],
            count: "SELECT count(*) FROM card JOIN list ON list.id = idList WHERE idBoard = board.id")
    ]
    private static let overLists = [
        table(
            "listCount", subject: "list", dependsOn: [.entity("list"), .entity("card", ["idList"])],
            count: "SELECT count(*) FROM card WHERE idList = list.id"),
        table(
            "boardCount", subject: "board", dependsOn: [.entity("board"), .snapshot("listCount", ["idBoard"])],
            count: "SELECT coalesce(sum(cards), 0) FROM listCount JOIN list USING (id) WHERE idBoard = board.id"),
    ]

    private func counts(_ store: Store) throws -> [String: Int] {
        try store.database.read { db in
            var found: [String: Int] = [:]
            for row in try Row.fetchAll(db, sql: "SELECT id, cards FROM boardCount") { found[row[0]] = row[1] }
            return found
        }
    }

    private func record(_ entity: String, _ id: String, _ version: Int64, _ fields: [String: FieldValue])
        -> ServerRecord
    {
        ServerRecord(key: RecordKey(entity, id), version: version, fields: fields.merging(["name": "n"]) { $1 })
    }

    @Test(
        "A list that moves with its cards touches the board that it leaves and the one that it comes to, whoever moves it",
        arguments: [true, false], [true, false])
    func moved(isStraight: Bool, isLocal: Bool) async throws {
        let file = try TestFile()
        var configuration = StoreConfiguration()
        configuration.clock = ManualWallClock()
        configuration.snapshots = isStraight ? Self.straight : Self.overLists
        let store = try Store(path: file.path, schema: Schema(Self.entities), configuration: configuration)
        let records = [
            record("board", "b-1", 1, [:]), record("board", "b-2", 2, [:]),
            record("list", "l-1", 3, ["idBoard": "b-1"]), record("card", "c-1", 4, ["idList": "l-1"]),
            record("card", "c-2", 5, ["idList": "l-1"]),
        ]
        _ = try await store.apply(PageSlice(records: records, from: 0, checkpoint: 5, epoch: "e-1"))
        #expect(try counts(store) == ["b-1": 2, "b-2": 0])
        if isLocal {
            try await store.database.write { db in
                try db.execute(sql: "UPDATE list SET idBoard = 'b-2' WHERE id = 'l-1'")
                try store.refreshSnapshots(db)
            }
        } else {
            let moved = [record("list", "l-1", 6, ["idBoard": "b-2"])]
            _ = try await store.apply(PageSlice(records: moved, from: 5, checkpoint: 6, epoch: "e-1"))
        }
        #expect(try counts(store) == ["b-1": 0, "b-2": 2])
        try await store.close()
    }
}
