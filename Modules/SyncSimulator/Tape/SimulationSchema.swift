public import SyncCore

/// The app that the simulator syncs: boards, lists, cards and comments, with a field for each merge rule.
public enum SimulationSchema {
    public static let entities = [
        EntitySchema(
            "board", fields: [.text("name"), .json("tags", rule: .union), .boolean("closed")]),
        EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name"), .real("pos")]),
        EntitySchema(
            "card",
            fields: [
                .parent("idList", "list"), .text("name"), .text("desc", rule: .check),
                .integer("votes", rule: .sum),
                .json("labels", rule: .union), .date("due"), .boolean("closed"),
                .reference("idBoardSeen", "board"),
            ]),
        EntitySchema("comment", fields: [.parent("idCard", "card"), .text("text")]),
    ]

    /// The same app, but what is refused of every second entity stays until the user deals with it.
    static func keeping(_ entities: [EntitySchema]) -> [EntitySchema] {
        entities.enumerated().map { place, entity in
            place % 2 == 0 ? entity : entity.with(refusal: .keep, entity.fields)
        }
    }

    /// The same app, but the last entity's records may stand under one another, as answers do.
    static func nested(_ entities: [EntitySchema]) -> [EntitySchema] {
        guard let last = entities.last, last.field("idAbove") == nil else { return entities }
        let above = FieldSchema("idAbove", kind: .text, reference: Reference(entity: last.name, isParent: true))
        return entities.dropLast() + [last.with(refusal: last.refusal, last.fields + [above])]
    }

    /// What an app knows that is one version behind: without the last field of each entity that has more than two beside
    /// its parents, and without the last entity if it is nobody's parent.
    static func older(_ entities: [EntitySchema]) -> [EntitySchema] {
        var known = entities
        if known.count > 2, let last = known.last,
            !entities.contains(where: { $0.fields.contains { $0.reference?.entity == last.name } })
        {
            known.removeLast()
        }
        return known.map { entity in
            let plain = entity.fields.filter { $0.reference == nil && !$0.isRequired }
            guard plain.count > 2, let last = plain.last else { return entity }
            return entity.with(refusal: entity.refusal, entity.fields.filter { $0.name != last.name })
        }
    }
}

extension EntitySchema {
    /// The same entity, whose writes are noticed in another way.
    func captured(by capture: CaptureMode) -> EntitySchema {
        EntitySchema(
            name, table: table, keyColumn: keyColumn, version: version, capture: capture, refusal: refusal,
            fields: fields)
    }

    /// The same entity with other fields, and another rule for what is refused.
    fileprivate func with(refusal: RefusalRule, _ fields: [FieldSchema]) -> EntitySchema {
        EntitySchema(
            name, table: table, keyColumn: keyColumn, version: version, capture: capture, refusal: refusal,
            fields: fields)
    }
}
