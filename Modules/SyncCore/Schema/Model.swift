/// A record as a Swift value: what it is made of, what differs, and a copy with differences applied (DESIGN.md, D10).
///
/// Models are structs: a difference needs two values side by side. It is for apps that want typed records; the engine
/// itself works on fields.
public protocol Model: Sendable {
    /// The entity that it is a record of.
    static var schema: EntitySchema { get }
    /// The record's id.
    var id: String { get }
    /// The declared fields by name; what is absent counts as null.
    var fields: [String: FieldValue] { get }
    /// The record of an id and fields.
    /// - Throws: an error of the model's own for a field that is missing or of another kind.
    init(id: String, fields: [String: FieldValue]) throws
}

extension Model {
    /// What turns `old` into this record, per declared field.
    public func difference(from old: Self) -> [String: FieldDelta] {
        let (before, after) = (old.fields, fields)
        var deltas: [String: FieldDelta] = [:]
        for field in Self.schema.fields {
            let (a, b) = (before[field.name] ?? .null, after[field.name] ?? .null)
            if !a.isSame(as: b) { deltas[field.name] = FieldDelta(old: a, new: b, rule: field.rule) }
        }
        return deltas
    }

    /// This record with the deltas' new values.
    public func applying(_ deltas: [String: FieldDelta]) throws -> Self {
        var all = fields
        for field in Self.schema.fields {
            if let delta = deltas[field.name] { all[field.name] = delta.new }
        }
        return try Self(id: id, fields: all)
    }
}
