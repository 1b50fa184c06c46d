import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Statements bound straight from memory")
struct RawStatementTests {
    /// Its first row cannot be computed: SQLite has no positive number of that size.
    private static let failing = "SELECT abs(-9223372036854775807 - 1)"

    @Test("A run that failed is told once, and the same statement can be used again")
    func failure() throws {
        try DatabaseQueue().read { db in
            for _ in 0..<3 {
                let statement = try RawStatement(db, Self.failing)
                #expect(throws: DatabaseError.self) { try statement.step() }
                statement.begin()
                #expect(throws: DatabaseError.self) { try statement.step() }
            }
        }
    }

    @Test("OBS-07 a value that could not be bound fails the run: it would have been NULL")
    func unbound() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE note (text TEXT)")
            let statement = try RawStatement(db, "INSERT INTO note VALUES (?1)")
            statement.add("a")
            // There is no second place.
            statement.add("b")
            let failure = #expect(throws: DatabaseError.self) { try statement.run() }
            #expect(failure?.resultCode == .SQLITE_RANGE)
            statement.begin()
            statement.add("c")
            try statement.run()
            let reading = try RawStatement(db, "SELECT text FROM note WHERE text = ?1")
            reading.add(Int64(1))
            reading.add(FieldValue.double(2))
            #expect(throws: DatabaseError.self) { try reading.step() }
            #expect(try String.fetchAll(db, sql: "SELECT text FROM note") == ["c"])
        }
    }
}
