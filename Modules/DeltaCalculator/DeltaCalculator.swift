public import SyncCore

/// Composes, replays and merges deltas by the declared rules, and by the app's own merges where it has any.
///
/// A pure value; its closures are called on values, never inside a transaction, and may be called again when base or
/// row moved meanwhile. Rules: PROTOCOL.md, `rule`; DESIGN.md, D5.
public struct DeltaCalculator: DeltaCalculation {
    /// A field of an entity.
    public struct Path: Sendable, Hashable {
        public let entity: String
        public let field: String
        public init(_ entity: String, _ field: String) {
            self.entity = entity
            self.field = field
        }
    }

    /// Makes one value of three: what both sides began with, what this device has, what the server has.
    public typealias Merge = @Sendable (_ base: FieldValue, _ mine: FieldValue, _ theirs: FieldValue) -> FieldValue

    private let plain = LastWriterDeltas()
    private let merges: [Path: Merge]

    /// A calculator with merges of the app's own for fields under `check`.
    public init(merges: [Path: Merge] = [:]) { self.merges = merges }

    public func compose(_ first: FieldDelta, _ second: FieldDelta) -> FieldDelta { plain.compose(first, second) }

    public func rebase(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue { plain.rebase(delta, onto: base) }

    public func successor(of change: Change, over record: ServerRecord, conflicts: Int) -> [String: FieldDelta]? {
        var merged = change
        for (name, delta) in change.fields {  // any order
            guard delta.rule == .check, let merge = merges[Path(change.record.entity, name)] else { continue }
            merged.fields[name]?.new = merge(delta.old ?? .null, delta.new, record.fields[name] ?? .null)
        }
        return plain.successor(of: merged, over: record, conflicts: conflicts)
    }
}
