/// All declared entities, checked once, in an order in which parents come before children.
public struct Schema: Sendable, Hashable {
    /// Parents first; entities that don't depend on each other in declared order.
    public let entities: [EntitySchema]
    private let indices: [String: Int]

    /// Checks and orders the entities.
    /// - Throws: ``SchemaError`` for the first mistake, in words that say what to write instead.
    public init(_ declared: [EntitySchema]) throws(SchemaError) {
        var seen: Set<String> = []
        for entity in declared {
            guard seen.insert(entity.name).inserted else { throw .duplicateEntity(entity.name) }
            try Self.check(entity)
        }
        for entity in declared {
            for field in entity.fields {
                guard let reference = field.reference else { continue }
                guard seen.contains(reference.entity) else {
                    throw .unknownReference(entity: entity.name, field: field.name, target: reference.entity)
                }
            }
        }
        entities = try Self.parentsFirst(declared)
        indices = Dictionary(uniqueKeysWithValues: entities.enumerated().map { ($1.name, $0) })
    }

    /// The entity of this name.
    public subscript(name: String) -> EntitySchema? { indices[name].map { entities[$0] } }

    /// The entities that name `entity` as a parent, with the fields that do.
    public func children(of entity: String) -> [(entity: EntitySchema, field: FieldSchema)] {
        entities.flatMap { child in
            child.parents.filter { $0.reference?.entity == entity }.map { (child, $0) }
        }
    }

    private static func check(_ entity: EntitySchema) throws(SchemaError) {
        for name in [entity.name, entity.table, entity.keyColumn] + entity.fields.flatMap({ [$0.name, $0.column] }) {
            guard isName(name) else { throw .badName(entity: entity.name, name: name) }
        }
        guard !entity.table.lowercased().hasPrefix("sync_") else { throw .reservedTable(entity.table) }
        var names: Set<String> = []
        var columns: Set<String> = [entity.keyColumn.lowercased()]
        for field in entity.fields {
            guard names.insert(field.name).inserted, columns.insert(field.column.lowercased()).inserted else {
                throw .duplicateField(entity: entity.name, field: field.name)
            }
        }
    }

    /// Letters, digits and `_`, not starting with a digit, at most 64: what can stand quoted in SQL without a second thought.
    private static func isName(_ name: String) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= 64 else { return false }
        guard !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else { return false }
        return name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
    }

    private static func parentsFirst(_ declared: [EntitySchema]) throws(SchemaError) -> [EntitySchema] {
        var placed: [EntitySchema] = []
        var names: Set<String> = []
        var rest = declared
        while !rest.isEmpty {
            // A record may be its own entity's parent (a folder in a folder); a longer circle has no first.
            let ready = rest.filter { entity in
                entity.parents.allSatisfy { parent in
                    guard let target = parent.reference?.entity else { return true }
                    return target == entity.name || names.contains(target)
                }
            }
            guard !ready.isEmpty else { throw .parentCycle(rest.map(\.name)) }
            placed += ready
            names.formUnion(ready.map(\.name))
            rest.removeAll { names.contains($0.name) }
        }
        return placed
    }
}

/// A mistake in the declared entities; its description says what to write instead.
public enum SchemaError: Error, Sendable, Hashable, CustomStringConvertible {
    case duplicateEntity(String)
    case duplicateField(entity: String, field: String)
    case badName(entity: String, name: String)
    case reservedTable(String)
    case unknownReference(entity: String, field: String, target: String)
    case parentCycle([String])

    public var description: String {
        switch self {
        case .duplicateEntity(let name):
            "The entity “\(name)” is declared twice; give each entity a name of its own."
        case .duplicateField(let entity, let field):
            "The entity “\(entity)” has two fields or columns “\(field)” (or one named as its key column); rename one."
        case .badName(let entity, let name):
            "“\(name)” in the entity “\(entity)” is no usable name; use 1 to 64 letters, digits and _, no digit first."
        case .reservedTable(let table):
            "The table “\(table)” begins with sync_, which is kept for the engine's own tables; choose another name."
        case .unknownReference(let entity, let field, let target):
            "The field “\(field)” of “\(entity)” refers to “\(target)”, which is not declared; declare it, or make the field a text."
        case .parentCycle(let names):
            "\(names.joined(separator: ", ")) are each other's parents; make one of these fields a reference that is no parent."
        }
    }
}
