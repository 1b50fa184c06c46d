import SyncCore

/// What an export says the board looks like in the end: its records, parents before children.
///
/// Comments stand in an export only as actions, so they are taken from there. A card's `idBoard` is not a field of ours:
/// its board is its list's.
struct FinalState: Sendable {
    private(set) var records: [LocalRecord] = []
    private let schema: Schema

    /// Reads everything that `boards` has an entity for.
    /// - Throws: a ``Problem`` for the first value of another type; nothing half-read is given out.
    init(_ export: BoardExport, schema: Schema) throws(Problem) {
        self.schema = schema
        try add("board", export.board)
        for label in export.labels { try add("label", label, under: ["idBoard": export.boardID]) }
        for list in export.lists { try add("list", list, under: ["idBoard": export.boardID]) }
        for card in export.cards { try add("card", card) }
        for checklist in export.checklists {
            try add("checklist", checklist)
            for item in try checklist["checkItems"]?.elements() ?? [] {
                try add("checkItem", item, under: ["idChecklist": try checklist.id()])
            }
        }
        for card in export.cards {
            for attachment in try card["attachments"]?.elements() ?? [] {
                try add("attachment", attachment, under: ["idCard": try card.id()])
            }
        }
        for action in export.actions.reversed() { try addComment(action) }
    }

    /// Adds one record; `parent` is used where the record does not name its parent itself.
    private mutating func add(_ name: String, _ node: JSONNode, under parent: [String: String] = [:]) throws(Problem) {
        guard let entity = schema[name] else { return }
        var fields = try node.fields(of: entity)
        for (field, id) in parent.sorted(by: { $0.key < $1.key }) where fields[field] == nil {
            fields[field] = .string(id)
        }
        records.append(LocalRecord(RecordKey(name, try node.id()), fields))
    }

    private mutating func addComment(_ action: JSONNode) throws(Problem) {
        guard let comment = try ActionReader(action, schema: schema).comment() else { return }
        records.append(comment)
    }
}
