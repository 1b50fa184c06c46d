import Foundation
import GRDB
import Storage
import SyncCore
import Testing
import Transport

/// What beginners get wrong is found at start, in a sentence that says what to write instead.
@Suite struct FirstMinutesTests {
    private func words(_ entities: [EntitySchema], tables: String? = nil) throws -> String {
        do {
            let schema = try Schema(entities)
            var configuration = StoreConfiguration()
            configuration.createsTables = tables == nil
            let database = try DatabaseQueue()
            if let tables { try database.write { try $0.execute(sql: tables) } }
            _ = try Store(database: database, schema: schema, configuration: configuration)
            return ""
        } catch let error as SchemaError {
            return error.description
        } catch let error as StoreFailure {
            return error.message
        }
    }

    private let card = EntitySchema("card", fields: [.text("name")])

    @Test("A mistake in the declaration, or between it and the table, is refused with what to write instead")
    func declarations() throws {
        let cases: [(entities: [EntitySchema], tables: String?, says: String)] = [
            ([card], "CREATE TABLE card (id TEXT, name TEXT)", "make it the primary key"),
            ([card], "CREATE TABLE other (id TEXT PRIMARY KEY)", "create it first"),
            ([card], "CREATE TABLE card (id INTEGER PRIMARY KEY, name TEXT)", "“id TEXT PRIMARY KEY NOT NULL”"),
            ([card], "CREATE TABLE card (name TEXT, id integer NOT NULL, PRIMARY KEY (id))", "“id TEXT PRIMARY KEY"),
            ([card], "CREATE TABLE card (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)", "“id TEXT PRIMARY KEY"),
            (
                [card], "CREATE TABLE card (id TEXT PRIMARY KEY, title TEXT)",
                "no column “name”; add it, or declare another"
            ),
            (
                [card], "CREATE TABLE card (id TEXT PRIMARY KEY, name TEXT, color TEXT NOT NULL)",
                "“color” of “card” must have a value, and no field of “card” brings one; declare a field"
            ),
            ([card, card], nil, "give each entity a name of its own"),
            ([EntitySchema("card", fields: [.text("name"), .text("name")])], nil, "rename one"),
            ([EntitySchema("card", fields: [.parent("idList", "list")])], nil, "declare it, or make the field a text"),
            (
                [
                    EntitySchema("a", fields: [.parent("b", "b")]), EntitySchema("b", fields: [.parent("a", "a")]),
                ], nil, "make one of these fields a reference that is no parent"
            ),
            ([EntitySchema("sync_card", fields: [])], nil, "choose another name"),
            ([EntitySchema("my card", fields: [])], nil, "use 1 to 64 letters, digits and _"),
        ]
        for (entities, tables, says) in cases {
            let found = try words(entities, tables: tables)
            #expect(found.contains(says), "\(found)")
        }
        // SQLite fills none of these by itself.
        for key in ["id TEXT PRIMARY KEY", "id INT PRIMARY KEY", "id TEXT UNIQUE, n INTEGER PRIMARY KEY NOT NULL"] {
            #expect(try words([card], tables: "CREATE TABLE card (name TEXT, \(key))").isEmpty, "\(key)")
        }
    }

    @Test(
        "A column that no field is declared for is told of once, by an event that says what to write if it is to sync")
    func unmapped() async throws {
        let database = try DatabaseQueue()
        try await database.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE card (
                      number INTEGER PRIMARY KEY NOT NULL, id TEXT UNIQUE, name TEXT, color TEXT,
                      size INTEGER NOT NULL DEFAULT 1, upper TEXT NOT NULL AS (coalesce(upper(name), '')) STORED)
                    """)
        }
        for round in 1...3 {
            if round == 3 {
                try await database.write { try $0.execute(sql: "ALTER TABLE card ADD COLUMN late TEXT") }
            }
            var configuration = StoreConfiguration()
            configuration.createsTables = false
            let store = try Store(database: database, schema: Schema([card]), configuration: configuration)
            let told = try await store.events().filter { $0.kind == "unmappedColumn" }.compactMap(\.detail)
            let columns = ["number", "color", "size"] + (round == 3 ? ["late"] : [])
            #expect(told.count == columns.count)
            for (column, words) in zip(columns, told) {
                #expect(words.contains("“\(column)” of “card” stays on this device; declare a field of “card”"))
            }
            try await store.write { db in
                try db.execute(sql: "INSERT INTO card (id, name) VALUES ('c-\(round)', 'A')")
            }
            #expect(try await store.queued().count == round)
        }
    }

    @Test("SEC-19 http to another machine is refused with what to write instead, and so is what is no address")
    func addresses() {
        for (address, says) in [
            ("http://api.example.com", "write https"), ("api.example.com", "write it as https://host"),
        ] {
            do throws(Endpoint.Failure) {
                _ = try Endpoint(address)
                Issue.record("\(address) was taken")
            } catch {
                #expect("\(error)".contains(says))
            }
        }
    }
}
