import SyncCore

@testable import SyncServer

/// Records in a dictionary, for the rules without a file.
final class MemorySource: RecordSource {
    private(set) var records: [RecordKey: StoredRecord] = [:]
    private var names: [Int64: RecordKey] = [:]
    private var links: [Int64: Set<Int64>] = [:]
    private var lastRow: Int64 = 0
    private(set) var head: Int64 = 0
    let rules: [String: EntityRules]

    init(entities: [ServerEntity]) throws { rules = try EntityRules.all(entities) }

    func record(_ key: RecordKey) throws -> StoredRecord? { records[key] }
    func children(of row: Int64) throws -> [RecordKey] { (links[row] ?? []).sorted().compactMap { names[$0] } }
    func nextRow() -> Int64 {
        lastRow += 1
        return lastRow
    }
    func isGuarded(sequence: Int64, device: String) throws -> Bool { false }
    func outcome(device: String, key: String) throws -> StoredOutcome? { nil }
    func isTaken(sequence: Int64, device: String, byOtherThan key: String) throws -> Bool { false }
    func settled(device: String) throws -> Int64 { 0 }
    func alias(of key: RecordKey) throws -> String? { nil }

    /// A record as it was kept before, under the one of that row.
    func keep(_ record: StoredRecord, as key: RecordKey, under parent: Int64?) {
        records[key] = record
        names[record.row] = key
        lastRow = max(lastRow, record.row)
        head = max(head, record.version)
        if let parent { links[parent, default: []].insert(record.row) }
    }

    /// One change as a request of its own.
    func decide(_ change: IncomingChange) throws -> Decision {
        var ledger = Ledger(rules: rules, protectedFields: [], head: head)
        let decision = try ledger.decide(change, in: self)
        for entry in ledger.entries where entry.isTouched {
            records[entry.key] = StoredRecord(
                row: entry.row, root: entry.root, version: entry.version, isDead: entry.isDead, state: entry.state)
            names[entry.row] = entry.key
            for row in links.keys { links[row]?.remove(entry.row) }
            for parent in entry.parents { links[ledger.entries[parent].row, default: []].insert(entry.row) }
        }
        head = ledger.head
        return decision
    }

    /// What readers see, in a form to compare: versions excepted, which follow the order of arrival.
    var seen: [String: String] {
        var seen: [String: String] = [:]
        for (key, record) in records where record.version > 0 {
            let fields = record.state.fields.map { "\($0.name)=\($0.value)" }.joined(separator: ",")
            seen[key.description] = record.isDead ? "dead" : fields
        }
        return seen
    }
}
