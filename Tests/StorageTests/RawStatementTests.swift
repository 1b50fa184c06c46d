import GRDB
@testable import Storage
import Testing

@Suite("Statements bound straight from memory")
struct RawStatementTests {
    /// Its first row cannot be computed: SQLite has no positive number of that size.
    private static let failing = "SELECT abs(-9223372036854775807 - 1)"

    @Test("PRC-07 a run that failed is told once, and the same statement can be used again")
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
}
