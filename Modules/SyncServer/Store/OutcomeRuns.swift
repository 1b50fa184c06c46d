internal import SyncCore

/// Outcomes of changes that came one after another, many in a row of the file: a device mostly makes its keys in ascending
/// order (UUIDs of version 7), as it does its sequences. A row with two indexes for each would cost a tenth of an edit, and
/// its removal half as much again (Decision 325).
///
/// What holds it together:
/// - Keys and sequences of a run ascend, and its first ones are above all that were stored of the device then, in whatever
///   form. So runs do not overlap, neither by key nor by sequence, and one look finds the only one that may have a key.
/// - No key of a run is stored as a row, and no row's key stands in a run, but where it is settled there.
/// - A run goes when all of it is settled; what is settled of one before that is not told any more.
final class OutcomeRuns {
    /// So many outcomes a row holds at most: it fits a page of the file with what is usual.
    static let together = 32
    /// So few are stored as rows of their own.
    static let least = 2

    /// The highest keys of a device; a key that was stored once may stand here for ever.
    struct Keys {
        /// Of all its outcomes.
        var top: String?
        /// Of those in runs.
        var topOfRuns: String?

        /// Whether no outcome of the device has that key, nor a higher one.
        func isAbove(_ key: String) -> Bool { top.map { $0 < key } ?? true }

        fileprivate func mayBeInRun(_ key: String) -> Bool { topOfRuns.map { key <= $0 } ?? false }
    }

    /// One outcome of a run.
    private struct Entry {
        var sequence: Int64
        var key: String
        var outcome: StoredOutcome
    }

    private let store: ServerStore
    /// What was read last; a run is never changed, only removed.
    private var last: (row: Int64, entries: [Entry])?

    private var statements: Statements { store.statements }

    /// For one request.
    init(store: ServerStore) { self.store = store }

    func keys(of device: Int64) throws -> Keys {
        if let known = store.keys[device] { return known }
        let ofRows = try highest("SELECT max(key) FROM outcome WHERE device = ?", device)
        let ofRuns = try highest("SELECT max(high) FROM outcome_run WHERE device = ?", device)
        return Keys(top: [ofRows, ofRuns].compactMap { $0 }.max(), topOfRuns: ofRuns)
    }

    private func highest(_ sql: StaticString, _ device: Int64) throws -> String? {
        try statements.first(sql, [device]) { $0[0] as String? } ?? nil
    }

    /// Keeps them in memory. They may be of a transaction that fails after all: too high a key only makes rows where a run would do.
    func note(_ keys: Keys, of device: Int64) {
        if store.keys.count >= 16_384 { store.keys = [:] }
        store.keys[device] = keys
    }

    // MARK: - Storing

    /// - Throws: ``KeyIsKnown`` where the file has one of them.
    func store(_ rows: [OutcomeRows.Row], now: Int64) throws {
        guard let first = rows.first, let last = rows.last else { return }
        var text = JSONWriter(capacity: 4_096)
        text.beginArray()
        for row in rows {
            text.beginArray()
            text.int(row.sequence)
            text.string(row.key)
            text.string(row.verdict)
            text.beginObject()
            if !row.members.isEmpty { text.raw(row.members.utf8) }
            text.endObject()
            text.int(Int64(bitPattern: row.digest.first))
            text.int(Int64(bitPattern: row.digest.second))
            if let intent = row.intent { text.string(intent) }
            text.endArray()
        }
        text.endArray()
        try OutcomeRows.orKnown {
            try statements.run(
                """
                INSERT INTO outcome_run(device, first, last, low, high, at, decided) VALUES (?, ?, ?, ?, ?, ?, ?)
                """
            ) { row in
                row.add(first.device)
                row.add(first.sequence)
                row.add(last.sequence)
                row.add(first.key)
                row.add(last.key)
                row.add(now)
                row.add(text)
            }
        }
    }

    // MARK: - Finding

    /// What was decided under a key, where that stands in a run and is not settled.
    func outcome(_ key: String, of device: DeviceContext) throws -> StoredOutcome? {
        try entries(
            """
            SELECT n, decided FROM outcome_run WHERE device = ? AND high >= ? ORDER BY high LIMIT 1
            """, [device.row, key]
        ).first { $0.key == key && $0.sequence > device.settled }?.outcome
    }

    func hasKey(_ key: String, of device: DeviceContext, below keys: Keys) throws -> Bool {
        try keys.mayBeInRun(key) && outcome(key, of: device) != nil
    }

    /// The key under which a sequence was used, where that stands in a run.
    func key(ofSequence sequence: Int64, of device: DeviceContext) throws -> String? {
        try entries(
            """
            SELECT n, decided FROM outcome_run WHERE device = ? AND last >= ? ORDER BY last LIMIT 1
            """, [device.row, sequence]
        ).first { $0.sequence == sequence }?.key
    }

    private func entries(_ sql: StaticString, _ arguments: [any SQLBindable]) throws -> [Entry] {
        try statements.first(sql, arguments) { row in
            if let last, last.row == row[0] { return last.entries }
            let entries = try Self.read(row.bytes(1))
            last = (row[0], entries)
            return entries
        } ?? []
    }

    private static func read(_ text: JSONBytes) throws -> [Entry] {
        var entries: [Entry] = []
        var reader = JSONReader(text, maximumDepth: FieldList.depth)
        try reader.beginArray()
        while try reader.nextElement() { entries.append(try entry(&reader, text)) }
        return entries
    }

    private static func entry(_ reader: inout JSONReader, _ text: JSONBytes) throws -> Entry {
        func expect(_ reader: inout JSONReader) throws {
            guard try reader.nextElement() else { throw RecordCodec.Damaged(reason: "half an outcome") }
        }
        try reader.beginArray()
        try expect(&reader)
        let sequence = try reader.readInt()
        try expect(&reader)
        let key = try reader.readString()
        try expect(&reader)
        let verdict = try reader.readString()
        try expect(&reader)
        let members = try reader.skipValue()
        try expect(&reader)
        let first = try reader.readInt()
        try expect(&reader)
        let second = try reader.readInt()
        if try reader.nextElement() {
            _ = try reader.readString()
            guard try !reader.nextElement() else { throw RecordCodec.Damaged(reason: "an outcome with too much") }
        }
        let inside = members.lowerBound + 1..<members.upperBound - 1
        return Entry(
            sequence: sequence, key: key,
            outcome: StoredOutcome(
                verdict: verdict,
                members: text.withBytes(inside) { String(decoding: $0, as: UTF8.self) },
                digest: ContentDigest(
                    first: UInt64(bitPattern: first), second: UInt64(bitPattern: second))))
    }
}
