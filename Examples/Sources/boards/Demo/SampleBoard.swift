import SyncCore

/// A small board in the form of a Trello export, made here, for machines without a real one.
struct SampleBoard {
    /// The export: a garden to be planned, with every entity that `boards` knows, and the history of how it came about.
    static func export() -> FieldValue {
        var board = SampleBoard()
        board.build()
        return [
            "id": .string(board.boardID), "name": "Garden", "desc": "What grows where, and who waters it.",
            "closed": false, "lists": .array(board.lists), "cards": .array(board.cards),
            "labels": .array(board.labels), "checklists": .array(board.checklists),
            "actions": .array(board.actions.reversed()),
        ]
    }

    private static let plan: [(list: String, cards: [String])] = [
        ("Ideas", ["A pond", "Bees", "A bench under the apple tree", "Swing", "Herb spiral"]),
        ("This week", ["Sow carrots", "Mend the fence", "Buy compost", "Prune the roses"]),
        ("Growing", ["Potatoes", "Peas", "Strawberries", "Lettuce", "Pumpkins", "Beans"]),
        ("Done", ["Dig the beds", "Order seeds", "Sharpen the spade"]),
    ]

    private var boardID = ""
    private var lists: [FieldValue] = []
    private var cards: [FieldValue] = []
    private var labels: [FieldValue] = []
    private var checklists: [FieldValue] = []
    private var actions: [FieldValue] = []
    private var count: Int64 = 0
    private var clock: Int64 = 1_780_000_000_000

    private mutating func build() {
        boardID = nextID()
        act("createBoard", ["board": named(boardID, "Garden")])
        let label = addLabel("Needs sun", "yellow")
        var firstList: FieldValue = .null
        for (place, part) in Self.plan.enumerated() {
            let list = nextID()
            lists.append([
                "id": .string(list), "name": .string(part.list), "closed": false, "idBoard": .string(boardID),
                "pos": .int(Int64(place + 1) * 65_536),
            ])
            act("createList", ["list": named(list, part.list)])
            if place == 0 { firstList = named(list, part.list) }
            for (row, name) in part.cards.enumerated() {
                addCard(name, in: list, part.list, row: row, label: row == 0 ? label : nil, from: firstList)
            }
        }
    }

    /// A card that began in the first list under a working title.
    private mutating func addCard(
        _ name: String, in list: String, _ listName: String, row: Int, label: String?, from firstList: FieldValue
    ) {
        let card = nextID()
        act("createCard", ["list": firstList, "card": named(card, "\(name)?")])
        var now = ["id": FieldValue.string(card), "name": .string(name)]
        act("updateCard", ["list": firstList, "card": .object(now), "old": ["name": .string("\(name)?")]])
        if case .object(let first) = firstList, first["id"] != .string(list) {
            now["idList"] = .string(list)
            act(
                "updateCard",
                [
                    "listBefore": firstList, "listAfter": named(list, listName), "card": .object(now),
                    "old": ["idList": first["id"] ?? .null],
                ])
        }
        var attachments: [FieldValue] = []
        if row == 1 {
            act("commentCard", ["card": .object(now), "text": .string("\(name): the neighbours want to help.")])
            addChecklist(to: card, .object(now))
            attachments.append([
                "id": .string(nextID()), "name": "sketch.png", "mimeType": "image/png", "bytes": 48_213,
                "url": "https://example.org/sketch.png", "isUpload": false,
            ])
        }
        cards.append([
            "id": .string(card), "name": .string(name), "desc": "", "closed": false, "due": .null,
            "idBoard": .string(boardID), "idList": .string(list), "pos": .double(Double(row + 1) * 16_384.5),
            "idLabels": label.map { [.string($0)] } ?? [], "idMembers": [], "attachments": .array(attachments),
        ])
    }

    private mutating func addChecklist(to card: String, _ told: FieldValue) {
        let checklist = nextID()
        act("addChecklistToCard", ["card": told, "checklist": named(checklist, "Steps")])
        var items: [FieldValue] = []
        for (place, name) in ["Measure", "Draw", "Ask around"].enumerated() {
            let item = nextID()
            let state = place == 0 ? "complete" : "incomplete"
            items.append([
                "id": .string(item), "name": .string(name), "state": .string(state), "idChecklist": .string(checklist),
                "pos": .int(Int64(place + 1) * 16_384),
            ])
            guard state == "complete" else { continue }
            act(
                "updateCheckItemStateOnCard",
                [
                    "card": told, "checklist": named(checklist, "Steps"),
                    "checkItem": ["id": .string(item), "name": .string(name), "state": .string(state)],
                ])
        }
        checklists.append([
            "id": .string(checklist), "name": "Steps", "idCard": .string(card), "pos": 16_384,
            "checkItems": .array(items),
        ])
    }

    private mutating func addLabel(_ name: String, _ color: String) -> String {
        let label = nextID()
        labels.append([
            "id": .string(label), "idBoard": .string(boardID), "name": .string(name), "color": .string(color),
        ])
        act("createLabel", ["label": ["id": .string(label), "name": .string(name), "color": .string(color)]])
        return label
    }

    private mutating func act(_ kind: String, _ data: [String: FieldValue]) {
        clock += 60_000
        actions.append([
            "id": .string(nextID()), "type": .string(kind), "idMemberCreator": "member-1",
            "date": .string(Timestamp(milliseconds: clock).description),
            "data": .object(data.merging(["board": named(boardID, "Garden")]) { told, _ in told }),
        ])
    }

    private func named(_ id: String, _ name: String) -> FieldValue { ["id": .string(id), "name": .string(name)] }

    /// 24 hex digits, as Trello's.
    private mutating func nextID() -> String {
        count += 1
        let digits = String(count, radix: 16)
        return "6a00000000000000" + String(repeating: "0", count: 8 - digits.count) + digits
    }
}
