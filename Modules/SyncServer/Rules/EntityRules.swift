/// What the rules must know of an entity.
struct EntityRules: Sendable, Hashable {
    let name: String
    let parents: [ServerEntity.Reference]
    /// Parents and others.
    let references: [ServerEntity.Reference]
    let tracksActivity: Bool

    init(_ entity: ServerEntity) {
        name = entity.name
        parents = entity.parents
        references = entity.parents + entity.references
        tracksActivity = entity.tracksActivity
    }

    /// The rules of all entities by name; throws if they do not fit together.
    static func all(_ entities: [ServerEntity]) throws(ServiceFailure) -> [String: EntityRules] {
        var rules: [String: EntityRules] = [:]
        for entity in entities {
            guard rules.updateValue(EntityRules(entity), forKey: entity.name) == nil else {
                throw .badConfiguration("the entity \(entity.name) is declared twice")
            }
        }
        for entity in entities {
            for parent in entity.parents + entity.references where rules[parent.entity] == nil {
                throw .badConfiguration(
                    "\(entity.name).\(parent.field) refers to \(parent.entity), which is not declared")
            }
        }
        return rules
    }
}
