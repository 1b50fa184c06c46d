import GRDB
import SyncCore

/// The three edits that a person makes by hand, each checked and done inside one transaction.
struct Edits {
    let records: Records
    /// Makes the ids of new records.
    var ids: any IDSource = UUIDv7Source()

    /// Makes a record.
    /// - Returns: its id.
    func add(
        _ db: Database, _ entity: EntitySchema, id: String?, _ fields: [String: FieldValue]
    ) throws -> String {
        for field in entity.fields where field.isRequired && fields[field.name] == nil {
            let what = field.reference.map { "the id of the \($0.entity) that it belongs to" } ?? "a value"
            throw Problem("A \(entity.name) needs \(field.name)=…: \(what).")
        }
        let key = RecordKey(entity.name, id ?? ids.makeID())
        guard try !records.exists(db, key) else { throw Problem("There is a \(entity.name) \(key.id) already.") }
        try checkParents(db, entity, fields)
        try records.insert(db, LocalRecord(key, fields.filter { !$0.value.isNull }))
        return key.id
    }

    /// Sets fields of a record that is here.
    func set(_ db: Database, _ key: RecordKey, _ entity: EntitySchema, _ fields: [String: FieldValue]) throws {
        guard let present = try records.fetch(db, key) else { throw Self.missing(key) }
        try checkParents(db, entity, fields)
        var fields = fields
        for field in entity.fields where field.rule == .union {
            guard let new = fields[field.name] else { continue }
            fields[field.name] = ElementSet.ordered(new, after: present[field.name] ?? .null)
        }
        try records.update(db, key, fields)
    }

    /// Deletes a record; what is under it goes out of sight with it.
    func delete(_ db: Database, _ key: RecordKey) throws {
        guard try records.fetch(db, key) != nil else { throw Self.missing(key) }
        try records.delete(db, key)
    }

    private func checkParents(_ db: Database, _ entity: EntitySchema, _ fields: [String: FieldValue]) throws {
        if let parent = try records.missingParent(db, entity, fields) { throw Self.missing(parent) }
    }

    /// The complaint about a record that is not here.
    static func missing(_ key: RecordKey) -> Problem { Problem("There is no \(key.entity) \(key.id) here.") }
}

/// Fields under the rule `union`: arrays that mean sets.
enum ElementSet {
    /// The same set in the order that every device will see: what was in it before stays in its order, new ones follow.
    static func ordered(_ new: FieldValue, after old: FieldValue) -> FieldValue {
        guard case .array(let wanted) = new, case .array(let before) = old else { return new }
        let kept = before.filter { element in wanted.contains { $0.isSame(as: element) } }
        return .array(kept + wanted.filter { element in !before.contains { $0.isSame(as: element) } })
    }

    /// The set with an element put in.
    static func putting(_ element: FieldValue, into set: FieldValue) -> FieldValue {
        guard case .array(let elements) = set else { return .array([element]) }
        return elements.contains { $0.isSame(as: element) } ? set : .array(elements + [element])
    }

    /// The set with an element taken out.
    static func taking(_ element: FieldValue, from set: FieldValue) -> FieldValue {
        guard case .array(let elements) = set else { return set }
        return .array(elements.filter { !$0.isSame(as: element) })
    }
}
