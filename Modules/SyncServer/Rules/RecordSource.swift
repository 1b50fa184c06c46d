internal import SyncCore

/// Where the rules read records and outcomes from: the store over SQLite, or a dictionary in a test.
///
/// What it gives is the state before the request; the ledger holds what the request made of it.
protocol RecordSource {
    /// The record of that name; `nil` if nothing, not even a delete, is known of it.
    func record(_ key: RecordKey) throws -> StoredRecord?
    /// The records that stood directly under that one, in the order of their rows.
    func children(of row: Int64) throws -> [RecordKey]
    /// The number for a record that is kept for the first time; grows, and is never given twice.
    func nextRow() -> Int64
    /// Whether a device's key need not be looked up, since the store itself will refuse to store an outcome twice: the
    /// usual case of a sequence above all that the device has used.
    func isGuarded(sequence: Int64, device: String) throws -> Bool
    /// What was decided about a key of a device; `nil` if it is not known (any more).
    func outcome(device: String, key: String) throws -> StoredOutcome?
    /// Whether a sequence of a device is taken by another key than this.
    func isTaken(sequence: Int64, device: String, byOtherThan key: String) throws -> Bool
    /// Up to where a device has settled.
    func settled(device: String) throws -> Int64
    /// The id that the server gave to a record that came under another.
    func alias(of key: RecordKey) throws -> String?
}

/// A record as it is kept.
struct StoredRecord: Sendable {
    var row: Int64
    /// The row of the record above all others; its own where there is none.
    var root: Int64
    /// 0 for one that readers never saw.
    var version: Int64
    /// Whether readers see it as dead, through itself or a parent.
    var isDead: Bool
    var state: RecordState
    /// How many bytes it takes.
    var size = 0
}

/// A decision as it is kept.
struct StoredOutcome: Sendable, Hashable {
    /// The first verdict (`applied`).
    var verdict: String
    /// What else stood in the first result, as the inside of a JSON object.
    var members: String
    /// Tells whether the same key came with other content.
    var digest: ContentDigest
}

/// What readers are told of a record.
struct RecordView: Sendable {
    var key: RecordKey
    var version: Int64
    var isDead: Bool
    /// Empty for a dead one.
    var fields: [(name: String, value: FieldValue)]
    var highestStamp: Stamp

    /// About how many bytes it takes in an answer, and never more: told before it is written, so that a request that asks for too
    /// much ends there.
    var leastBytes: Int { fields.reduce(0) { $0 + $1.name.utf8.count + 4 + $1.value.leastBytes } }
}

extension FieldValue {
    fileprivate var leastBytes: Int {
        switch self {
        case .null, .bool, .double: 1
        // Of so many bits at least three in ten digits.
        case .int(let number): max(0, 63 - number.magnitude.leadingZeroBitCount) * 3 / 10 + 1
        case .string(let text): text.utf8.count + 2
        case .data(let bytes): bytes.count
        case .array(let elements): elements.reduce(1) { $0 + 1 + $1.leastBytes }
        case .object(let members): members.reduce(1) { $0 + 4 + $1.key.utf8.count + $1.value.leastBytes }
        }
    }
}
