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
    private let makeID: () -> String

    init(makeID: @escaping () -> String) {
        self.makeID = makeID
    }

    /// The change with the server's ids in place of those that it gave others for.
    ///
    /// A record of which anything is known under the device's name, also from this very request, keeps that name.
    func rename(_ change: IncomingChange, ledger: inout Ledger, in source: some RecordSource) throws -> IncomingChange {
        var change = change
        for parent in ledger.rules[change.record.entity]?.parents ?? [] {
            guard let index = change.fields.firstIndex(where: { $0.name == parent.field }) else { continue }
            change.fields[index].new = try rename(change.fields[index].new, of: parent.entity, in: source)
            change.fields[index].old = try change.fields[index].old.map {
                try rename($0, of: parent.entity, in: source)
            }
        }
        if let known = try present(change.record, in: source) {
            change.record = known
        } else if change.operation == .create, try ledger.find(change.record, in: source) == nil {
            change.record = RecordKey(change.record.entity, makeID())
        }
        return change
    }

    private func rename(_ value: FieldValue, of entity: String, in source: some RecordSource) throws -> FieldValue {
        guard case .string(let id) = value else { return value }
        return try find(RecordKey(entity, id), in: source).map { .string($0) } ?? value
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
