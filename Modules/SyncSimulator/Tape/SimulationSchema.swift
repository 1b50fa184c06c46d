public import SyncCore

/// The app that the simulator syncs: boards, lists, cards and comments, with a field for each merge rule.
public enum SimulationSchema {
    public static let entities = [
        EntitySchema("board", fields: [.text("name"), .json("tags", rule: .union), .boolean("closed")]),
        EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name"), .real("pos")]),
        EntitySchema(
            "card",
            fields: [
                .parent("idList", "list"), .text("name"), .text("desc", rule: .check), .integer("votes", rule: .sum),
                .json("labels", rule: .union), .date("due"), .boolean("closed"), .reference("idBoardSeen", "board"),
            ]),
        EntitySchema("comment", fields: [.parent("idCard", "card"), .text("text")]),
    ]

    /// The entity of which an entity's records are children, and the field that says so.
    static let parents: [String: (field: String, entity: String)] = [
        "list": ("idBoard", "board"), "card": ("idList", "list"), "comment": ("idCard", "card"),
    ]
}
