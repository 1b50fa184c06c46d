import GRDB
import SyncCore

/// Marks picked changes as being sent, each with the `baseVersion` that it keeps for ever.
enum Marking {
    /// - Parameters:
    ///   - groups: the changes in the order of the queue, and whether their stored form is another by now.
    ///   - held: the versions held of their records, by the changes' places.
    ///   - stated: what some of them say in place of that, whatever is held.
    /// - Returns: them as they go out.
    static func mark(
        _ db: Database, _ groups: [(changes: [StoredChange], isRewritten: Bool)], held: [Int64: Int64],
        stated: [Int64: Int64] = [:]
    ) throws -> [QueuedChange] {
        guard !groups.isEmpty else { return [] }
        var claimed: [QueuedChange] = []
        claimed.reserveCapacity(groups.count)
        let epoch = try QueueFigures.epochSequence(db)
        var marks = try Marks(db)
        for (changes, isRewritten) in groups {
            for var change in changes {
                switch change.state {
                case .uploading: break
                case .uncertain: try ChangeRows.setState(db, position: change.position, .uploading)
                case .pending, .blocked, .failed, .blockedAfterSending:
                    change.baseVersion = stated[change.position] ?? baseVersion(of: change, held: held, epoch)
                    try markFresh(db, change, isRewritten: isRewritten || change.isRaw, &marks)
                }
                let wasSent = change.wasSent
                change.state = .uploading
                var queued = change.queued
                queued.wasSent = wasSent
                claimed.append(queued)
            }
        }
        try marks.finish()
        return claimed
    }

    /// PROTOCOL.md, `baseVersion`: the version last accepted here; none for a create, for what the server never
    /// acknowledged, and for a change made in an earlier epoch.
    private static func baseVersion(of change: StoredChange, held: [Int64: Int64], _ epoch: Int64) -> Int64? {
        change.operation != .create && change.sequence > epoch ? held[change.position] : nil
    }

    private static func markFresh(
        _ db: Database, _ change: StoredChange, isRewritten: Bool, _ marks: inout Marks
    ) throws {
        // What is sent once must read the same whatever is declared later.
        if isRewritten, change.operation == .create { return try markAnew(db, change) }
        if isRewritten { try ChangeRows.rewrite(db, change) }
        try marks.add(change)
    }

    /// The mark and the stored form of a create in one statement: it has no `baseVersion`.
    private static func markAnew(_ db: Database, _ change: StoredChange) throws {
        let row = try RawStatement(
            db,
            "UPDATE sync_change SET operation = ?, stamp = ?, fields = ?, state = 1, baseVersion = NULL WHERE position = ?"
        )
        row.begin()
        row.add(change.operation.number)
        row.add(Int64(bitPattern: change.stamp.packed))
        row.add(try DeltaCodec.json(change.fields, operation: change.operation))
        row.add(change.position)
        try row.run()
    }

    /// Takes the marks of changes away that had never been sent before, and were not sent since.
    static func unmark(_ db: Database, _ keys: [String]) throws {
        let sql = """
            UPDATE sync_change SET state = 0, baseVersion = NULL
            WHERE state <> 0 AND state = 1 AND key IN (SELECT value FROM json_each(?))
            """
        try db.cachedStatement(sql: sql).execute(arguments: [Payloads.list(keys)])
    }
}

/// The marks of changes that stay as they are stored: sixteen by one statement where nothing stands between them in the queue.
///
/// That statement says `OR FAIL`: of several rows in one SQLite would keep a journal, to take back half of them
/// (Decision 186). Whatever fails takes all of the claim back.
private struct Marks {
    private static let together = 16
    private static let manySQL: String = {
        let versions = (0..<together).map { "WHEN \($0) THEN ?\($0 + 3)" }.joined(separator: " ")
        return """
            UPDATE OR FAIL sync_change SET state = 1, baseVersion = CASE position - ?1 \(versions) END
            WHERE position BETWEEN ?1 AND ?2
            """
    }()

    private let one: RawStatement
    private let many: RawStatement
    /// Each behind the one before it, without a gap.
    private var open: [(position: Int64, version: Int64?)] = []

    init(_ db: Database) throws {
        one = try RawStatement(db, "UPDATE sync_change SET state = 1, baseVersion = ? WHERE position = ?")
        many = try RawStatement(db, Self.manySQL)
        open.reserveCapacity(Self.together)
    }

    /// It is marked after ``finish()`` at the latest.
    mutating func add(_ change: StoredChange) throws {
        if let last = open.last, last.position + 1 != change.position { try finish() }
        open.append((change.position, change.baseVersion))
        if open.count == Self.together { try markMany() }
    }

    /// Marks the rest.
    mutating func finish() throws {
        for mark in open {
            one.begin()
            one.add(mark.version)
            one.add(mark.position)
            try one.run()
        }
        open.removeAll(keepingCapacity: true)
    }

    private mutating func markMany() throws {
        guard let first = open.first, let last = open.last else { return }
        many.begin()
        many.add(first.position)
        many.add(last.position)
        for mark in open { many.add(mark.version) }
        try many.run()
        open.removeAll(keepingCapacity: true)
    }
}
