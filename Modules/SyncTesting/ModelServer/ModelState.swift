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
    /// What moved out from under a root, under which version.
    var leavings: [Leaving] = []
    /// Within one request: records that a verdict tells of to who may not have heard of all that they left, and up to which
    /// version it has.
    var heard: [RecordKey: Int64] = [:]

    struct Leaving: Sendable {
        var record: RecordKey
        var root: RecordKey
        var version: Int64
    }

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

    /// The record at the top of the first parents: what is not there any more counts, dead or alive.
    func root(of key: RecordKey, schema: Schema, depth: Int = 0) -> RecordKey {
        guard depth < 64, let record = records[key], let parent = parents(of: record, schema: schema).first
        else { return key }
        return root(of: parent, schema: schema, depth: depth + 1)
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
            let look = ModelRecord.Shown(
                isLive: isLive(key, schema: schema), fields: record.fields, root: root(of: key, schema: schema))
            if look != record.shown || record.version == 0 {
                head += 1
                if record.version > 0, let old = record.shown.root, old != look.root {
                    leavings.append(Leaving(record: key, root: old, version: head))
                }
                records[key]?.shown = look
                records[key]?.version = head
            }
        }
    }

    /// Tells again what those records left, under the version that they have: a device does not take what is below the one
    /// that a verdict told it.
    mutating func tellLeavesAgain() {
        for place in leavings.indices {
            guard let version = heard[leavings[place].record], leavings[place].version > version else { continue }
            leavings[place].version = records[leavings[place].record]?.version ?? leavings[place].version
        }
        heard = [:]
    }

    /// The record as a reader sees it; `nil` where only deletes of it came.
    func seen(_ key: RecordKey) -> ServerRecord? {
        guard let record = records[key], record.exists else { return nil }
        return ServerRecord(
            key: key, version: record.version, presence: record.shown.isLive ? .live : .deleted,
            fields: record.shown.fields)
    }

    /// What has a version above `checkpoint`, in version order.
    func changes(since checkpoint: Int64) -> [ServerRecord] {
        records.values.filter { $0.version > checkpoint }.sorted { $0.version < $1.version }.compactMap { seen($0.key) }
    }

    /// What the scopes have above their checkpoints, in version order: the records under their roots, and which ones left
    /// them for a root that is not asked for. Who begins with a scope has nothing of it that could leave.
    func changes(of scopes: [String: Int64]) -> [ServerRecord] {
        func checkpoint(_ root: RecordKey?) -> Int64? { root.flatMap { scopes["\($0.entity):\($0.id)"] } }
        let here = records.values.filter { record in
            checkpoint(record.shown.root).map { record.version > $0 } ?? false
        }.compactMap { seen($0.key) }
        var left: [RecordKey: Int64] = [:]
        for leaving in leavings where checkpoint(records[leaving.record]?.shown.root) == nil {
            guard let checkpoint = checkpoint(leaving.root), checkpoint > 0, leaving.version > checkpoint else {
                continue
            }
            left[leaving.record] = leaving.version
        }
        return (here + left.map { ServerRecord(key: $0, version: $1, presence: .gone) })
            .sorted { $0.version < $1.version }
    }

    /// The sum of FNV-1a-64 over entity, id and version of every live record of the scopes (PROTOCOL.md, `checksum`).
    func checksum(of scopes: [String: Int64]?) -> String {
        var sum: UInt64 = 0
        for record in records.values where record.shown.isLive {  // any order
            if let scopes, record.shown.root.map({ scopes["\($0.entity):\($0.id)"] == nil }) ?? true { continue }
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
