import GRDB
@testable import Storage
import SyncCore
import Testing

/// No statement of the queue walks over a table: the plans of all that were run are read.
@Suite struct QueryPlanTests {
    /// Collects the statements that a connection runs.
    final class Recorder: @unchecked Sendable {
        // Only used within one synchronous access of the database, by its one thread.
        var statements: Set<String> = []
    }

    @Test("QUE-14 no scan of a table in settling, claiming and repair")
    func plans() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        let table = fixture.store.context.changes
        let recorder = Recorder()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('A', 'A', 'b1')")
        for index in 0..<8 { try fixture.insertCard("n\(index)", list: "A") }
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        try await fixture.store.database.write { db in
            db.trace { if case .statement(let statement) = $0 { recorder.statements.insert(statement.sql) } }
            let (claim, _) = try table.settle(db, Settlement(), claim: ClaimLimits(maxChanges: 4), now: 1)
            let keys = claim.changes.map(\.change.id)
            let outcomes: [Settlement.Outcome] = [
                .init(changeID: keys[0], kind: .refused()), .init(changeID: keys[1], kind: .unanswered),
                .init(changeID: keys[2], kind: .refused("missingReference", reference: "A")),
                .init(changeID: keys[3], kind: .applied(9)), .init(changeID: "late", kind: .applied(9)),
            ]
            _ = try table.settle(db, Settlement(outcomes: outcomes), claim: ClaimLimits(), now: 2)
            _ = try table.summary(db)
            _ = try table.failures(db)
            _ = try table.dependants(db, of: keys[0])
            let again = try table.retry(db, keys[0], now: 3)
            _ = try table.settle(db, Settlement(), claim: ClaimLimits(), now: 3)
            try ChangeTable.recover(db)
            _ = try table.cancel(db, again.key, now: 4)
            db.trace(nil)
        }
        #expect(recorder.statements.count > 30)
        for sql in recorder.statements.sorted()
        where sql.hasPrefix("SELECT") || sql.hasPrefix("UPDATE") || sql.hasPrefix("DELETE") || sql.hasPrefix("INSERT") {
            let plan = try await fixture.store.database.write { db in
                try Row.fetchAll(
                    db, sql: "EXPLAIN QUERY PLAN \(sql)",
                    arguments: StatementArguments(
                        Array(repeating: DatabaseValue.null, count: sql.filter { $0 == "?" }.count))
                ).map { $0["detail"] as String }
            }
            for line in plan where line.hasPrefix("SCAN") {
                // The parts of the queue that are in flight or aside are walked over by their own index; a list that was
                // handed over as JSON is walked over as it is.
                #expect(
                    line.contains("VIRTUAL TABLE") || line.contains("USING INDEX sync_change_aside")
                        || line.contains("USING COVERING INDEX sync_change_aside")
                        || line.contains("USING INDEX sync_change_successor")
                        // Drafts and local rows are few.
                        || line == "SCAN sync_draft"
                        // Whether anything is held: one row is read.
                        || line.hasPrefix("SCAN sync_held")
                            && (sql.contains("EXISTS (SELECT 1 FROM sync_held)") || sql.contains("LIMIT 1")),
                    "\(sql)\n\(line)")
            }
        }
    }
}
