internal import GRDB

/// Stores outcomes with their effect, within the caller's transaction: as runs where keys and sequences ascend and are above
/// all that the device had (``OutcomeRuns``), the rest as rows, eight by one statement.
///
/// The statement of eight says `OR FAIL`: what it did before a key that is known stays done, and SQLite keeps no copy of each
/// page to undo it. Whoever is told ``KeyIsKnown`` takes all of the request back anyhow (Decision 186).
struct OutcomeRows {
    private static let together = 8

    /// One outcome, as it is kept.
    struct Row {
        var device: Int64
        var sequence: Int64
        var key: String
        var verdict: String
        var members: String
        var digest: ContentDigest
        var intent: String?
    }

    private let store: ServerStore
    private let now: Int64
    private let runs: OutcomeRuns
    /// The device of what is open.
    private var device: Int64?
    private var keys = OutcomeRuns.Keys()
    /// Above all that the device had, and in order.
    private var ascending: [Row] = []
    private var others: [Row] = []

    init(store: ServerStore, nowMilliseconds: Int64) {
        self.store = store
        now = nowMilliseconds
        runs = OutcomeRuns(store: store)
        ascending.reserveCapacity(OutcomeRuns.together)
    }

    /// Takes one that is to be stored; others it leaves alone. It is in the file after ``finish()`` at the latest.
    ///
    /// - Throws: ``KeyIsKnown`` where one of those taken so far has a key or a sequence that is stored.
    mutating func add(_ outcome: ChangeOutcome, members: String, device: inout DeviceContext) throws {
        guard let sequence = outcome.storedSequence else { return }
        if self.device != device.row {
            try finish()
            (self.device, keys) = (device.row, try runs.keys(of: device.row))
        }
        let row = Row(
            device: device.row, sequence: sequence, key: outcome.changeID, verdict: outcome.decision.verdict,
            members: members, digest: outcome.digest ?? outcome.dirty.digest, intent: outcome.dirty.intent)
        let isAbove = sequence > device.top && keys.isAbove(row.key)
        device.top = max(device.top, sequence)
        if keys.isAbove(row.key) { keys.top = row.key }
        if isAbove {
            ascending.append(row)
            if ascending.count == OutcomeRuns.together { try endRun() }
        } else {
            try endRun()
            guard try !runs.hasKey(row.key, of: device, below: keys) else { throw KeyIsKnown() }
            others.append(row)
            if others.count == Self.together { try storeOthers() }
        }
    }

    /// Stores the rest.
    ///
    /// - Throws: As ``add(_:members:device:)``.
    mutating func finish() throws {
        try endRun()
        try storeOthers()
        if let device { runs.note(keys, of: device) }
    }

    private mutating func endRun() throws {
        guard let last = ascending.last else { return }
        if ascending.count < OutcomeRuns.least {
            others += ascending
            if others.count >= Self.together { try storeOthers() }
        } else {
            try runs.store(ascending, now: now)
            keys.topOfRuns = last.key
        }
        ascending.removeAll(keepingCapacity: true)
    }

    private mutating func storeOthers() throws {
        var rest = others[...]
        while rest.count >= Self.together {
            try run(
                """
                INSERT OR FAIL INTO outcome(device, sequence, key, verdict, members, first, second, at, intent) VALUES
                    (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?),
                    (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?),
                    (?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """, rest.prefix(Self.together))
            rest = rest.dropFirst(Self.together)
        }
        for place in rest.indices {
            try run(
                """
                INSERT INTO outcome(device, sequence, key, verdict, members, first, second, at, intent)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """, rest[place...place])
        }
        others.removeAll(keepingCapacity: true)
    }

    private func run(_ sql: StaticString, _ rows: ArraySlice<Row>) throws {
        try Self.orKnown {
            try store.statements.run(sql) { arguments in
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
        }
    }

    /// What the file refuses since it has the key, or the sequence.
    static func orKnown(_ body: () throws -> Void) throws {
        do { try body() } catch let failure as DatabaseError where failure.resultCode == .SQLITE_CONSTRAINT {
            throw KeyIsKnown()
        }
    }
}
