import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// A file of before is opened by a new version of the engine or of the app, which is killed at each of its statements.
@Suite("Killed while a file is brought up to date")
struct KilledMigrationTests {
    /// What a file holds, in words that can be compared.
    private struct Contents: Equatable {
        var format: Int64?
        var tables: [String]
        var queue: [Row]
        var rows: [Row]
    }

    private func contents(_ db: Database) throws -> Contents {
        Contents(
            format: try EngineTables.found(db),
            tables: try String.fetchAll(
                db, sql: "SELECT name || coalesce(sql, '') FROM sqlite_master ORDER BY type, name"),
            queue: try Row.fetchAll(db, sql: "SELECT * FROM sync_change ORDER BY position"),
            rows: try Row.fetchAll(db, sql: "SELECT * FROM board ORDER BY id"))
    }

    /// As the file stands, by nobody's opening but SQLite's.
    private func raw<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        let queue = try DatabaseQueue(path: path)
        let result = try queue.read(body)
        try queue.close()
        return result
    }

    /// What the engine says of the queue: under which key what goes, and how far it is.
    private func told(_ store: Store) async throws -> [String] {
        try await store.queued().map { queued in
            let change = queued.change
            let fields = change.fields.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
            return "\(change.id) \(change.sequence) \(change.stamp) \(queued.state) \(change.operation) "
                + "\(change.record) \(fields.joined(separator: ", "))"
        }
    }

    /// A closed file of format 1 with three changes, of which one was sent.
    private func oldFile() async throws -> TestFile {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        _ = try await f.claim(ClaimLimits(maxChanges: 1, merges: false))
        try f.sql("UPDATE board SET closed = 1")
        try f.sql("INSERT INTO board (id, name) VALUES ('b2', 'B')")
        for table in ["sync_draft", "sync_dirty"] { try f.sql("DROP TABLE \(table)") }
        try f.sql("DROP VIEW sync_enqueue")
        try f.sql("DELETE FROM sync_meta WHERE key = 'highest'")
        try f.sql("UPDATE sync_meta SET value = 1 WHERE key = 'format'")
        try f.sql("UPDATE sync_change SET state = 2 WHERE position = 1")
        // No room is left over from the tables of today.
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        try await f.store.close()
        return f.file
    }

    @Test("PRC-17 a file of format 1: the old format or the new one, whole; the queue is the same in both")
    func format() async throws {
        let file = try await oldFile()
        let old = try raw(file.path, contents)
        #expect(old.format == 1 && old.queue.count == 3)
        let camera = Camera(file)
        let configuration = StoreConfiguration(
            clock: FixedClock(),
            statementHook: { _ in
                camera.take()
                return true
            })
        camera.start()
        let store = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        camera.take()
        camera.stop()
        let expected = try await told(store)
        #expect(expected.count == 3)
        try await store.close()
        let new = try raw(file.path, contents)
        let found = Tally()
        for copy in camera.copies {
            let left = try raw(copy, contents)
            found.add("\(left.format ?? 0)")
            if left.format == 1 { #expect(left == old) } else { #expect(left.tables == new.tables) }
            #expect(left.queue == old.queue)
            let again = try Store(
                path: copy, schema: boardSchema(), configuration: StoreConfiguration(clock: FixedClock()))
            #expect(again.movedAside == nil)
            #expect(try await told(again) == expected)
            #expect(try await again.integrityProblems().isEmpty)
            try await again.close()
            #expect(try raw(copy) { try contents($0).tables } == new.tables)
        }
        #expect(camera.copies.count > 20)
        #expect(found.all == ["1", "4"])
    }

    private func migrations(second: Bool) -> AppMigrations {
        var migrations = AppMigrations()
        migrations.register("one") { db in
            try db.execute(sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT, stars TEXT)")
        }
        guard second else { return migrations }
        let steps: [AppMigrations.ChangeStep] = [
            .rename(entity: "board", from: "name", to: "title"), .drop(entity: "board", field: "stars"),
            .convert(entity: "board", field: "title") { value in
                if case .string(let text) = value { .string(text.uppercased()) } else { value }
            },
        ]
        migrations.register("two", changes: steps) { db in
            try db.execute(sql: "ALTER TABLE board RENAME COLUMN name TO title")
            try db.execute(sql: "ALTER TABLE board DROP COLUMN stars")
            try db.execute(sql: "UPDATE board SET title = upper(title)")
        }
        return migrations
    }

    private func open(
        _ path: String, second: Bool, hook: StoreConfiguration.StatementHook? = nil
    ) throws -> Store {
        let fields: [FieldSchema] = second ? [.text("title")] : [.text("name"), .text("stars")]
        return try Store(
            path: path, schema: Schema([EntitySchema("board", fields: fields)]),
            configuration: StoreConfiguration(
                clock: FixedClock(), createsTables: false, migrations: migrations(second: second),
                statementHook: hook))
    }

    @Test("PRC-17 PRC-18 a migration of the app's: rows and what waits are both of the old version or both of the new")
    func appMigration() async throws {
        let file = try TestFile()
        let old = try open(file.path, second: false)
        try await old.database.write { try $0.execute(sql: "INSERT INTO board VALUES ('b1', 'a', '3')") }
        _ = try await old.settle(Settlement(), claim: ClaimLimits())
        try await old.database.write { try $0.execute(sql: "UPDATE board SET name = 'b', stars = '4'") }
        try await old.close()
        let camera = Camera(file)
        camera.start()
        let new = try open(file.path, second: true) { _ in
            camera.take()
            return true
        }
        camera.take()
        camera.stop()
        let expected = try await told(new)
        #expect(try await new.queued().map(\.state) == [.uncertain, .pending])
        try await new.close()
        let found = Tally()
        for copy in camera.copies {
            let left = try raw(copy) { db in
                let columns = try db.columns(in: "board").map(\.name).joined(separator: ",")
                let row = try Row.fetchOne(db, sql: "SELECT * FROM board")?.databaseValues.map(\.description) ?? []
                // What was sent stays as it went, in either version.
                let queue = try String.fetchAll(db, sql: "SELECT fields FROM sync_change ORDER BY position")
                return "\(columns): \(row.joined(separator: ",")); \(queue.last ?? "")"
            }
            found.add(left)
            let again = try open(copy, second: true)
            #expect(again.movedAside == nil)
            #expect(try await told(again) == expected)
            #expect(try again.read { try Meta.integer($0, .migrating) } ?? 0 == 0)
            #expect(try await again.integrityProblems().isEmpty)
            // The triggers are back.
            try await again.database.write { try $0.execute(sql: "UPDATE board SET title = 'C'") }
            #expect(try await again.queued().count == 3)
            try await again.close()
        }
        #expect(camera.copies.count > 20)
        #expect(
            found.all == [
                #"id,name,stars: "b1","b","4"; {"name":{"old":"a","new":"b"},"stars":{"old":"3","new":"4"}}"#,
                #"id,title: "b1","B"; {"title":{"new":"B","old":"A"}}"#,
            ])
    }

    @Test("PRC-09 a disk that is full while a file of format 1 is opened: it stays as it was; the next opening does it")
    func fullDisk() async throws {
        let file = try await oldFile()
        let old = try raw(file.path, contents)
        let isFull = Switch()
        let limited = StoreConfiguration(clock: FixedClock(), migrations: isFull.migrations)
        isFull.isOn = true
        let failure = #expect(throws: StoreFailure.self) {
            try Store(path: file.path, schema: boardSchema(), configuration: limited)
        }
        #expect(failure?.kind == .full)
        var left = try raw(file.path, contents)
        left.tables.removeAll { $0.contains("grdb_migrations") }
        #expect(left == old)
        isFull.isOn = false
        let store = try Store(path: file.path, schema: boardSchema(), configuration: limited)
        #expect(store.movedAside == nil)
        #expect(try await store.queued().map(\.state) == [.uncertain, .pending, .pending])
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
        #expect(try raw(file.path, contents).format == EngineTables.format)
    }
}

/// A disk that has no room while it is on.
private final class Switch: @unchecked Sendable {  // one test's, one thread after the other
    var isOn = false

    /// Before the engine's own tables are looked at, the connection is told that the file may not grow.
    var migrations: AppMigrations {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("room") { [self] db in
            guard isOn else { return }
            try db.execute(sql: "PRAGMA max_page_count = 1")
        }
        return AppMigrations(migrator)
    }
}
