import SyncCore

/// A Trello board export: the board itself, and what stands in it.
struct BoardExport: Sendable {
    let board: JSONNode
    let boardID: String
    let lists: [JSONNode]
    let cards: [JSONNode]
    let labels: [JSONNode]
    let checklists: [JSONNode]
    /// Newest first, as Trello writes them.
    let actions: [JSONNode]

    /// Takes a JSON document that has `id`, `lists`, `cards` and `actions`.
    /// - Throws: a ``Problem`` that says what is missing.
    init(_ document: FieldValue) throws(Problem) {
        board = JSONNode(value: document, place: "")
        guard board.isObject else { throw notAnExport("it is no object") }
        boardID = try board.id()
        lists = try Self.list("lists", of: board, isNeeded: true)
        cards = try Self.list("cards", of: board, isNeeded: true)
        actions = try Self.list("actions", of: board, isNeeded: true)
        labels = try Self.list("labels", of: board, isNeeded: false)
        checklists = try Self.list("checklists", of: board, isNeeded: false)
    }

    private static func list(_ name: String, of board: JSONNode, isNeeded: Bool) throws(Problem) -> [JSONNode] {
        guard let node = board[name] else {
            if isNeeded { throw notAnExport("it has no \(name)") }
            return []
        }
        let elements = try node.elements()
        for element in elements where !element.isObject { throw notAnExport("\(element.place) is no object") }
        return elements
    }
}
