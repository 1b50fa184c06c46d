import SyncCore

/// Puts the server's ids in place of this device's, and back: in batches, one look at the map for each.
struct IDTranslator: Sendable {
    let schema: Schema
    let ids: any IDTranslation
    var waits = IDWaiting.always

    /// A map that cannot be read is this side's trouble: nothing was sent, or nothing of the answer is taken.
    static func attempt<T>(_ body: () throws(StoreFailure) -> T) throws(ExchangeFailure) -> T {
        do throws(StoreFailure) {
            return try body()
        } catch {
            throw ExchangeFailure(
                kind: .network,
                message: "The ids of this device and of the server could not be translated (\(error.message)). "
                    + "Nothing is lost; it is tried again.")
        }
    }

    // MARK: To the server

    /// Whether anything is to be done.
    func isUsed() throws(StoreFailure) -> Bool {
        switch waits {
        case .always: true
        case .onceNamed: try ids.hasServerIDs()
        }
    }

    func outgoing(_ request: ExchangeRequest) throws(StoreFailure) -> ExchangeRequest {
        guard try isUsed() else { return request }
        var request = request
        let changes = independent(request.changes)
        var names = names(in: changes)
        let scopes = (request.scopes ?? [:]).keys.compactMap(Self.record(ofScope:))
        names.formUnion(scopes)
        let known = names.isEmpty ? [:] : try ids.serverIDs(of: names)
        request.changes = known.isEmpty ? changes : changes.map { rename($0, known) }
        if !known.isEmpty, let scopes = request.scopes {
            var renamed: [String: Int64] = [:]
            for (scope, version) in scopes {
                let id = Self.record(ofScope: scope).flatMap { key in known[key].map { "\(key.entity):\($0)" } }
                renamed[id ?? scope] = version
            }
            request.scopes = renamed
        }
        return request
    }

    func outgoing(_ changes: [Change]) throws(StoreFailure) -> [Change] {
        let changes = independent(changes)
        let names = names(in: changes)
        let known = names.isEmpty ? [:] : try ids.serverIDs(of: names)
        return known.isEmpty ? changes : changes.map { rename($0, known) }
    }

    /// The changes before the first that needs a record which a change before it creates, and that is not of its unit.
    private func independent(_ changes: [Change]) -> [Change] {
        var created: [RecordKey: String?] = [:]
        for (index, change) in changes.enumerated() {
            let needs = [change.record] + references(of: change).map(\.target)
            let waits = needs.contains { need in
                guard let unit = created[need] else { return false }
                return unit == nil || unit != change.unit
            }
            if waits {
                // A unit is not divided.
                let start = change.unit.flatMap { unit in changes.firstIndex { $0.unit == unit } } ?? index
                return start == 0 ? changes : Array(changes.prefix(start))
            }
            if change.operation == .create { created[change.record] = .some(change.unit) }
        }
        return changes
    }

    private func names(in changes: [Change]) -> Set<RecordKey> {
        var names: Set<RecordKey> = []
        for change in changes {
            names.insert(change.record)
            for reference in references(of: change) { names.insert(reference.target) }
        }
        return names
    }

    private func rename(_ change: Change, _ known: [RecordKey: String]) -> Change {
        var change = change
        for field in schema[change.record.entity]?.fields ?? [] {
            guard let target = field.reference?.entity, var delta = change.fields[field.name] else { continue }
            delta.new = Self.rename(delta.new, target, known)
            delta.old = delta.old.map { Self.rename($0, target, known) }
            change.fields[field.name] = delta
        }
        change.record = Self.rename(change.record, known)
        return change
    }

    /// The records that a change's declared references name, before and after.
    private func references(of change: Change) -> [(field: String, target: RecordKey)] {
        var found: [(String, RecordKey)] = []
        for field in schema[change.record.entity]?.fields ?? [] {
            guard let target = field.reference?.entity, let delta = change.fields[field.name] else { continue }
            for case .string(let id)? in [delta.new, delta.old] { found.append((field.name, RecordKey(target, id))) }
        }
        return found
    }

    // MARK: From the server

    func incoming(_ records: [ServerRecord]) throws(StoreFailure) -> [ServerRecord] {
        guard !records.isEmpty, try isUsed() else { return records }
        var names: Set<RecordKey> = []
        for record in records { collect(record, into: &names) }
        let known = names.isEmpty ? [:] : try ids.localIDs(of: names)
        return known.isEmpty ? records : records.map { rename($0, known) }
    }

    /// - Parameters:
    ///   - sent: the changes as they were sent.
    ///   - changes: the same, and perhaps more, as they are named here.
    func incoming(
        _ results: [ChangeResult], to sent: [Change], as changes: [Change]
    ) throws(StoreFailure) -> [ChangeResult] {
        let local = Dictionary(changes.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        var names: Set<RecordKey> = []
        var made: [RecordKey: String] = [:]
        for result in results {
            let change = local[result.changeID]
            collect(result, change, into: &names)
            if let change, let id = result.serverIDOfMade {
                made[RecordKey(change.record.entity, id)] = change.record.id
            }
        }
        let isNaming = try made.isEmpty ? isUsed() : true
        guard !names.isEmpty, isNaming else { return results }
        // What these verdicts name stands in the map only once they are settled, and another record has it there first.
        var known = try ids.localIDs(of: names).merging(made) { there, _ in there }
        // What was asked under the server's id is answered under it, whatever the map says by now.
        for change in sent {
            guard let here = local[change.id]?.record, here != change.record else { continue }
            known[change.record] = here.id
        }
        return known.isEmpty ? results : results.map { rename($0, local[$0.changeID], known) }
    }

    private func collect(_ record: ServerRecord, into names: inout Set<RecordKey>) {
        names.insert(record.key)
        collect(record.fields, of: record.key.entity, into: &names)
    }

    private func collect(_ fields: [String: FieldValue], of entity: String, into names: inout Set<RecordKey>) {
        for field in schema[entity]?.fields ?? [] {
            guard let target = field.reference?.entity, case .string(let id)? = fields[field.name] else { continue }
            names.insert(RecordKey(target, id))
        }
    }

    private func collect(_ result: ChangeResult, _ change: Change?, into names: inout Set<RecordKey>) {
        switch result.verdict {
        case .merged(let record), .conflict(let record): collect(record, into: &names)
        case .applied(_, let overwrote, _):
            if let change { collect(overwrote, of: change.record.entity, into: &names) }
        case .rejected(let rejection):
            guard let id = rejection.reference, let change else { return }
            for entity in targets(of: change.record.entity) { names.insert(RecordKey(entity, id)) }
        case .blocked, .retry: break
        }
    }

    private func rename(_ result: ChangeResult, _ change: Change?, _ known: [RecordKey: String]) -> ChangeResult {
        var result = result
        switch result.verdict {
        case .merged(let record): result.verdict = .merged(record: rename(record, known))
        case .conflict(let record): result.verdict = .conflict(record: rename(record, known))
        case .applied(let version, let overwrote, let serverID):
            guard let change, !overwrote.isEmpty else { break }
            let renamed = rename(overwrote, of: change.record.entity, known)
            result.verdict = .applied(version: version, overwrote: renamed, serverID: serverID)
        case .rejected(var rejection):
            guard let id = rejection.reference, let change else { break }
            let local = targets(of: change.record.entity).lazy.compactMap { known[RecordKey($0, id)] }.first
            rejection.reference = local ?? id
            result.verdict = .rejected(rejection)
        case .blocked, .retry: break
        }
        return result
    }

    private func rename(_ record: ServerRecord, _ known: [RecordKey: String]) -> ServerRecord {
        var record = record
        record.fields = rename(record.fields, of: record.key.entity, known)
        record.key = Self.rename(record.key, known)
        return record
    }

    private func rename(
        _ fields: [String: FieldValue], of entity: String, _ known: [RecordKey: String]
    ) -> [String: FieldValue] {
        var fields = fields
        for field in schema[entity]?.fields ?? [] {
            guard let target = field.reference?.entity, let value = fields[field.name] else { continue }
            fields[field.name] = Self.rename(value, target, known)
        }
        return fields
    }

    /// The entities that an entity's references name.
    private func targets(of entity: String) -> [String] {
        schema[entity]?.fields.compactMap { $0.reference?.entity } ?? []
    }

    private static func rename(_ key: RecordKey, _ known: [RecordKey: String]) -> RecordKey {
        known[key].map { RecordKey(key.entity, $0) } ?? key
    }

    private static func rename(_ value: FieldValue, _ target: String, _ known: [RecordKey: String]) -> FieldValue {
        guard case .string(let id) = value, let other = known[RecordKey(target, id)] else { return value }
        return .string(other)
    }

    /// `board:8f2e…` names a record.
    private static func record(ofScope scope: String) -> RecordKey? {
        guard let colon = scope.firstIndex(of: ":") else { return nil }
        return RecordKey(String(scope[..<colon]), String(scope[scope.index(after: colon)...]))
    }
}
