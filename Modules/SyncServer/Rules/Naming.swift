internal import SyncCore

/// A server that makes its own ids: what a device calls a record, and what it is called here.
///
/// Confined to one request under the service's lock; the aliases made are stored with the request's effects.
final class Naming {
    /// A device's name of a record, and the server's id.
    struct Alias: Sendable, Hashable {
        var key: RecordKey
        var id: String
    }

    private(set) var made: [Alias] = []
    private let makeID: (RecordKey) -> String

    /// - Parameter makeID: the server's id for what a device calls so.
    init(makeID: @escaping (RecordKey) -> String) {
        self.makeID = makeID
    }

    /// The change with the server's ids in place of those that it gave others for.
    ///
    /// A record of which anything is known under the device's name, also from this very request, keeps that name.
    func rename(_ change: IncomingChange, ledger: inout Ledger, in source: some RecordSource) throws -> IncomingChange {
        var change = change
        for reference in ledger.rules[change.record.entity]?.references ?? [] {
            guard let index = change.fields.firstIndex(where: { $0.name == reference.field }) else { continue }
            if try isKnownFromBefore(change.fields[index].new, of: reference.entity, in: source) {
                change.isTranslated = true
            }
            change.fields[index].new = try rename(change.fields[index].new, of: reference.entity, in: source)
            change.fields[index].old = try change.fields[index].old.map {
                try rename($0, of: reference.entity, in: source)
            }
        }
        if let known = try present(change.record, in: source) {
            change.record = known
        } else if change.operation == .create, try ledger.find(change.record, in: source) == nil {
            change.record = RecordKey(change.record.entity, makeID(change.record))
        }
        return change
    }

    private func rename(_ value: FieldValue, of entity: String, in source: some RecordSource) throws -> FieldValue {
        guard case .string(let id) = value else { return value }
        return try find(RecordKey(entity, id), in: source).map { .string($0) } ?? value
    }

    private func isKnownFromBefore(
        _ value: FieldValue, of entity: String, in source: some RecordSource
    ) throws -> Bool {
        guard case .string(let id) = value else { return false }
        let key = RecordKey(entity, id)
        return try !hasMade(key) && source.alias(of: key) != nil
    }

    /// Whether this very request made it, and its answer tells the name.
    func hasMade(_ key: RecordKey) -> Bool { made.contains { $0.key == key } }

    /// What the same key must say again, by whichever of their ids it names records: a client learns the server's in between, and says
    /// the same with those.
    /// - Parameter source: where the server's ids are; `nil` takes those that the change tells.
    func digest<Source: RecordSource>(
        of dirty: DirtyRecord, _ rules: [String: EntityRules], in source: Source?
    ) throws -> ContentDigest {
        guard var digest = dirty.namelessDigest, case .change(let change) = dirty.content else { return dirty.digest }
        func name(_ id: String, _ entity: String) throws -> String {
            try source.flatMap { try find(RecordKey(entity, id), in: $0) } ?? id
        }
        func name(_ value: FieldValue, _ entity: String) throws -> FieldValue {
            if case .string(let id) = value { .string(try name(id, entity)) } else { value }
        }
        digest.add(text: try name(change.record.id, change.record.entity))
        for reference in rules[change.record.entity]?.references ?? [] {
            guard let field = change.fields.first(where: { $0.name == reference.field }) else { continue }
            digest.add(text: reference.field)
            digest.add(value: try name(field.old ?? .null, reference.entity))
            digest.add(value: try name(field.new, reference.entity))
        }
        return digest
    }

    /// A record under the server's id, where the device's name stands for one.
    func present(_ key: RecordKey, in source: some RecordSource) throws -> RecordKey? {
        try find(key, in: source).map { RecordKey(key.entity, $0) }
    }

    private func find(_ key: RecordKey, in source: some RecordSource) throws -> String? {
        try made.last { $0.key == key }?.id ?? source.alias(of: key)
    }

    /// The create was done: the device's name stands for the server's id from now on.
    func settle(_ key: RecordKey, _ id: String) {
        made.append(Alias(key: key, id: id))
    }

    /// Forgets what a unit made that was not done.
    func takeBack(to count: Int) {
        made.removeLast(made.count - count)
    }
}
