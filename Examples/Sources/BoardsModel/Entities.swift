public import SyncCore

/// What a board is made of: the eight entities of the program `boards`, under Trello's names.
///
/// This is the only place that knows them. The database's tables, the commands' fields, the import, the JSON and the
/// server's references all follow from it, so a new entity is a few lines here. A card's board is its list's board and
/// is no field of its own; `dateLastActivity` belongs to the server and is never written.
public enum BoardEntities {
    /// The declared entities, parents before children.
    public static let all: [EntitySchema] = [
        EntitySchema(
            "board",
            fields: [
                .text("name"), .text("desc"), .boolean("closed"), .boolean("starred"), .json("prefs"),
                .json("labelNames"),
            ]),
        EntitySchema(
            "label",
            fields: [.parent("idBoard", "board"), .text("name"), .text("color")]),
        EntitySchema(
            "list",
            fields: [.parent("idBoard", "board"), .text("name"), .boolean("closed"), .real("pos")]),
        EntitySchema(
            "card",
            fields: [
                .parent("idList", "list"), .text("name"), .text("desc"), .boolean("closed"), .date("start"),
                .date("due"), .boolean("dueComplete"), .real("pos"), .json("idLabels", rule: .union),
                .json("idMembers", rule: .union),
            ]),
        EntitySchema(
            "checklist",
            fields: [.parent("idCard", "card"), .text("name"), .real("pos")]),
        EntitySchema(
            "checkItem",
            fields: [
                .parent("idChecklist", "checklist"), .text("name"), .text("state"), .date("due"), .text("idMember"),
                .real("pos"),
            ]),
        EntitySchema(
            "comment",
            fields: [.parent("idCard", "card"), .text("text"), .text("idMemberCreator"), .date("date")]),
        EntitySchema(
            "attachment",
            fields: [
                .parent("idCard", "card"), .text("name"), .text("mimeType"), .integer("bytes"), .text("url"),
                .boolean("isUpload"), .text("idMember"), .date("date"), .real("pos"),
            ]),
    ]

    /// The same, checked and put in order.
    /// - Throws: ``SchemaError`` for a mistake in the table above.
    public static func schema() throws(SchemaError) -> Schema { try Schema(all) }
}
