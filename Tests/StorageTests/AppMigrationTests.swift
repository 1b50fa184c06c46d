import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("The app's own migrations")
struct AppMigrationTests {
    private func migrations(second: Bool, changes: [AppMigrations.ChangeStep] = []) -> AppMigrations {
        var migrations = AppMigrations()
        migrations.register("one") { db in
            try db.execute(sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT, stars TEXT)")
        }
        guard second else { return migrations }
        migrations.register("two", changes: changes) { db in
            try db.execute(sql: "ALTER TABLE board RENAME COLUMN name TO title")
            try db.execute(sql: "UPDATE board SET title = upper(title)")
        }
        return migrations
    }

    private func open(_ file: TestFile, _ fields: [FieldSchema], _ migrations: AppMigrations) throws -> Store {
        try Store(
            path: file.path, schema: Schema([EntitySchema("board", fields: fields)]),
            configuration: StoreConfiguration(clock: FixedClock(), createsTables: false, migrations: migrations))
    }

    @Test("PRC-18 what waits goes along with a rename; what the migration writes is not captured")
    func rename() async throws {
        let file = try TestFile()
        let old = try open(file, [.text("name"), .text("stars")], migrations(second: false))
        try await old.database.write { try $0.execute(sql: "INSERT INTO board VALUES ('b1', 'a', '3')") }
        _ = try await old.settle(Settlement(), claim: ClaimLimits())
        try await old.database.write { try $0.execute(sql: "UPDATE board SET name = 'b', stars = '4'") }
        try await old.close()
        let steps: [AppMigrations.ChangeStep] = [
            .rename(entity: "board", from: "name", to: "title"), .drop(entity: "board", field: "stars"),
            .convert(entity: "board", field: "title") { value in
                if case .string(let text) = value { .string(text.uppercased()) } else { value }
            },
        ]
        let new = try open(file, [.text("title")], migrations(second: true, changes: steps))
        let queued = try await new.queued()
        #expect(queued.map(\.state) == [.uncertain, .pending])
        #expect(queued[0].change.fields["name"]?.new == "a")
        #expect(queued[1].change.fields == ["title": FieldDelta(old: "A", new: "B")])
        try await new.database.write { try $0.execute(sql: "UPDATE board SET title = 'C'") }
        #expect(try await new.queued().count == 3)
        #expect(try await new.integrityProblems().isEmpty)
        try await new.close()
    }

    @Test("Erasing the database on a schema change is refused while changes wait")
    func erase() async throws {
        let file = try TestFile()
        let old = try open(file, [.text("name")], migrations(second: false))
        try await old.database.write { try $0.execute(sql: "INSERT INTO board VALUES ('b1', 'a', '3')") }
        try await old.close()
        var migrator = DatabaseMigrator()
        migrator.eraseDatabaseOnSchemaChange = true
        migrator.registerMigration("other") { try $0.execute(sql: "CREATE TABLE x (y)") }
        let failure = #expect(throws: StoreFailure.self) {
            try open(file, [.text("name")], AppMigrations(migrator))
        }
        #expect(failure?.kind == .refused)
        let again = try open(file, [.text("name")], migrations(second: false))
        #expect(try await again.queued().count == 1)
        try await again.close()
    }

    @Test(
        "An app makes its tables where one or a column is missing, and only then; what it does not make is told, and nothing stays"
    )
    func makesTables() async throws {
        let file = try TestFile()
        let schema = try Schema([EntitySchema("board", fields: [.text("name")])])
        let wider = try Schema([EntitySchema("board", fields: [.text("name"), .text("color")])])
        func open(_ schema: Schema, making sql: String) throws -> Store {
            let configuration = StoreConfiguration(
                createsTables: false, makesTables: { try $0.execute(sql: sql) })
            return try Store(path: file.path, schema: schema, configuration: configuration)
        }
        let failure = #expect(throws: StoreFailure.self) { try open(schema, making: "CREATE TABLE other (id TEXT)") }
        #expect(failure?.kind == .invalid)
        #expect(failure?.message.contains("There is no table “board”") == true)
        let first = try open(schema, making: "CREATE TABLE board (id TEXT PRIMARY KEY NOT NULL, name TEXT)")
        #expect(try await first.database.read { try $0.tableExists("other") } == false)
        try await first.database.write { try $0.execute(sql: "INSERT INTO board VALUES ('b1', 'Board')") }
        try await first.close()
        // Nothing is missing.
        try await open(schema, making: "no SQL").close()
        let second = try open(wider, making: "ALTER TABLE board ADD COLUMN color TEXT")
        try await second.database.write { try $0.execute(sql: "UPDATE board SET color = 'red'") }
        #expect(try await second.queued().map(\.change.operation) == [.create, .update])
        try await second.close()
    }
}
