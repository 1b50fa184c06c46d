import SyncCore

/// Everything that a model server knows of one account: a dictionary, a log and a key table.
///
/// A value: a backup is a copy, and a restored backup is an assignment.
struct ModelState: Sendable {
    struct KeyName: Hashable, Sendable {
        var device: String
        var changeID: String
    }

    struct Outcome: Sendable {
        var sequence: Int64
        var content: Content
        var result: ChangeResult
    }

    /// What a key stands for; `baseVersion` and `deviceID` are not compared.
    struct Content: Hashable, Sendable {
        var record: RecordKey
        var operation: Operation
        var sequence: Int64
        var stamp: Stamp
        var fields: [String: FieldDelta]

        init(_ change: Change) {
            record = change.record
            operation = change.operation
            sequence = change.sequence
            stamp = change.stamp
            fields = change.fields
        }
    }

    var records: [RecordKey: ModelRecord] = [:]
    var keys: [KeyName: Outcome] = [:]
    /// The key that a device used for a sequence.
    var sequences: [String: [Int64: String]] = [:]
    /// Up to which sequence a device needs no outcomes any more.
    var settled: [String: Int64] = [:]
    /// The highest version handed out.
    var head: Int64 = 0
    var dataset: String
    var epoch: String
    /// From here on tombstones are complete.
    var oldestVersion: Int64 = 0
    /// The highest stamp of what was accepted.
    var stamp = Stamp.zero
    var log: [ModelServer.Effect] = []

    /// Whether the record shows: not dead, and no parent of it is dead.
    func isLive(_ key: RecordKey, schema: Schema, depth: Int = 0) -> Bool {
        guard let record = records[key], !record.isDeadItself else { return false }
        guard depth < 64 else { return true }
        return parents(of: record, schema: schema).allSatisfy { parent in
            records[parent] == nil || isLive(parent, schema: schema, depth: depth + 1)
        }
    }

    func parents(of record: ModelRecord, schema: Schema) -> [RecordKey] {
        (schema[record.key.entity]?.parents ?? []).compactMap { field in
            guard case .string(let id)? = record.writes[field.name].map({ _ in record.value(of: field.name) }),
                let entity = field.reference?.entity
            else { return nil }
            return RecordKey(entity, id)
        }
    }

    /// Gives a new version to `first`, and to everything under it, where the look changed; parents first.
    mutating func publish(_ first: RecordKey, schema: Schema) {
        var order = [first]
        var seen: Set<RecordKey> = [first]
        var place = 0
        while place < order.count {
            let parent = order[place]
            place += 1
            for (entity, field) in schema.children(of: parent.entity) {
                let children = records.values.filter { child in
                    child.key.entity == entity.name && child.writes[field.name] != nil
                        && child.value(of: field.name) == .string(parent.id)
                }
                for child in children.map(\.key).sorted() where seen.insert(child).inserted { order.append(child) }
            }
        }
        for key in order {
            guard let record = records[key] else { continue }
            let look = ModelRecord.Shown(isLive: isLive(key, schema: schema), fields: record.fields)
            if look != record.shown || record.version == 0 {
                head += 1
                records[key]?.shown = look
                records[key]?.version = head
            }
        }
    }

    /// The record as a reader sees it.
    func seen(_ key: RecordKey) -> ServerRecord? {
        guard let record = records[key] else { return nil }
        return ServerRecord(
            key: key, version: record.version, presence: record.shown.isLive ? .live : .deleted,
            fields: record.shown.fields)
    }

    /// What has a version above `checkpoint`, in version order.
    func changes(since checkpoint: Int64) -> [ServerRecord] {
        records.values.filter { $0.version > checkpoint }.sorted { $0.version < $1.version }.compactMap { seen($0.key) }
    }

    /// The sum of FNV-1a-64 over entity, id and version of every live record (PROTOCOL.md, `checksum`).
    var checksum: String {
        var sum: UInt64 = 0
        for record in records.values where record.shown.isLive {
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325
            for byte in "\(record.key.entity)\n\(record.key.id)\n\(record.version)".utf8 {
                hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3
            }
            sum &+= hash
        }
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
