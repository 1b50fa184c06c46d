internal import GRDB

/// Stores outcomes with their effect, within the caller's transaction: eight by one statement, the rest one by one.
///
/// The statement of eight says `OR FAIL`: what it did before a key that is known stays done, and SQLite keeps no copy of each
/// page to undo it. Whoever is told ``KeyIsKnown`` takes all of the request back anyhow (Decision 186).
struct OutcomeRows {
    private static let together = 8

    /// One outcome, as it is kept.
    private struct Row {
        var device: Int64
        var sequence: Int64
        var key: String
        var verdict: String
        var members: String
        var digest: ContentDigest
        var intent: String?
    }

    private let statements: Statements
    private let now: Int64
    private var open: [Row] = []

    init(store: ServerStore, nowMilliseconds: Int64) {
        statements = store.statements
        now = nowMilliseconds
        open.reserveCapacity(Self.together)
    }

    /// Takes one that is to be stored; others it leaves alone. It is in the file after ``finish()`` at the latest.
    ///
    /// - Throws: ``KeyIsKnown`` where one of those taken so far has a key or a sequence that is stored.
    mutating func add(_ outcome: ChangeOutcome, members: String, device: inout DeviceContext) throws {
        guard let digest = outcome.digest, let sequence = outcome.sequence else { return }
        open.append(
            Row(
                device: device.row, sequence: sequence, key: outcome.changeID, verdict: outcome.decision.verdict,
                members: members, digest: digest, intent: outcome.intent))
        device.top = max(device.top, sequence)
        guard open.count == Self.together else { return }
        try run(
            """
            INSERT OR FAIL INTO outcome(device, sequence, key, verdict, members, first, second, at, intent) VALUES
                (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?),
                (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?),
                (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """, open[...])
        open.removeAll(keepingCapacity: true)
    }

    /// Stores the rest.
    ///
    /// - Throws: As ``add(_:members:device:)``.
    mutating func finish() throws {
        for place in open.indices {
            try run(
                """
                INSERT INTO outcome(device, sequence, key, verdict, members, first, second, at, intent)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """, open[place...place])
        }
        open.removeAll()
    }

    private func run(_ sql: StaticString, _ rows: ArraySlice<Row>) throws {
        do {
            try statements.run(sql) { arguments in
                for row in rows {
                    arguments.add(row.device)
                    arguments.add(row.sequence)
                    arguments.add(row.key)
                    arguments.add(row.verdict)
                    arguments.add(row.members)
                    arguments.add(Int64(bitPattern: row.digest.first))
                    arguments.add(Int64(bitPattern: row.digest.second))
                    arguments.add(now)
                    arguments.add(row.intent)
                }
            }
        } catch let failure as DatabaseError where failure.resultCode == .SQLITE_CONSTRAINT {
            throw KeyIsKnown()
        }
    }
}
