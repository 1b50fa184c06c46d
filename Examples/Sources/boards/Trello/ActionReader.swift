import SyncCore

/// Reads one action of an export: what it did, with before and after.
///
/// Trello's `data` names the records that an action touched (`card`, `list`, `board` …), the edited fields' new values
/// inside them, and the old ones in `old`. Fields that `boards` does not declare are passed over.
struct ActionReader {
    let node: JSONNode
    let schema: Schema
    let kind: String
    let time: Timestamp
    let data: JSONNode

    init(_ node: JSONNode, schema: Schema) throws(Problem) {
        self.node = node
        self.schema = schema
        guard let kind = node["type"] else { throw notAnExport("\(node.place) has no type") }
        self.kind = try kind.text()
        guard let date = node["date"] else { throw notAnExport("\(node.place) has no date") }
        guard let time = Timestamp(try date.text()) else { throw notAnExport("\(date.place) is no time") }
        self.time = time
        data = node["data"] ?? JSONNode(value: .object([:]), place: "\(node.place).data")
    }

    /// The action with its steps.
    func action() throws(Problem) -> ReplayAction {
        guard let edits = try edits() else { return ReplayAction(kind: kind, time: time, steps: nil) }
        return ReplayAction(kind: kind, time: time, steps: try mentions() + edits)
    }

    /// The comment that this action made, if it made one.
    func comment() throws(Problem) -> LocalRecord? {
        guard kind == "commentCard" || kind == "copyCommentCard", let card = data["card"]?.reference("id") else {
            return nil
        }
        var fields: [String: FieldValue] = ["idCard": .string(card), "date": .string(time.description)]
        if let text = data["text"] { fields["text"] = .string(try text.text()) }
        if let member = node["idMemberCreator"] { fields["idMemberCreator"] = .string(try member.text()) }
        return LocalRecord(RecordKey("comment", try node.id()), fields)
    }

    /// The edits by kind: the table of what can be replayed. `nil` for a kind that is not in it.
    private func edits() throws(Problem) -> [ReplayStep]? {
        switch kind {
        case "createBoard", "copyBoard": try create("board")
        case "updateBoard": try update("board")
        case "createList": try create("list", parent: "idBoard", in: "board")
        case "updateList": try update("list")
        case "moveListToBoard": try move("list", "idBoard", to: "board")
        case "createCard", "copyCard", "emailCard", "convertToCardFromCheckItem":
            try create("card", parent: "idList", in: "list")
        case "updateCard": try updateCard()
        case "moveCardToBoard":
            try create("card", parent: "idList", in: "list") + move("card", "idList", to: "list")
        case "deleteCard": try delete("card")
        case "addMemberToCard": change("idMembers", to: data.reference("idMember"), isPut: true)
        case "removeMemberFromCard": change("idMembers", to: data.reference("idMember"), isPut: false)
        case "addLabelToCard":
            try mention("label", parent: "idBoard", in: "board")
                + change("idLabels", to: data["label"]?.reference("id"), isPut: true)
        case "removeLabelFromCard": change("idLabels", to: data["label"]?.reference("id"), isPut: false)
        case "createLabel": try create("label", parent: "idBoard", in: "board")
        case "updateLabel": try update("label")
        case "deleteLabel": try delete("label")
        case "addChecklistToCard", "createChecklist", "copyChecklist":
            try create("checklist", parent: "idCard", in: "card")
        case "updateChecklist": try mention("checklist", parent: "idCard", in: "card") + update("checklist")
        case "removeChecklistFromCard": try delete("checklist")
        case "createCheckItem": try create("checkItem", parent: "idChecklist", in: "checklist")
        case "updateCheckItem", "updateCheckItemDue": try update("checkItem")
        case "updateCheckItemStateOnCard": try updateCheckItemState()
        case "deleteCheckItem": try delete("checkItem")
        case "addAttachmentToCard": try create("attachment", parent: "idCard", in: "card")
        case "deleteAttachmentFromCard": try delete("attachment")
        case "commentCard", "copyCommentCard": try comment().map { [.create($0.key, $0.fields)] } ?? []
        case "updateComment": try updateComment()
        case "deleteComment": data["action"]?.reference("id").map { [.delete(RecordKey("comment", $0))] } ?? []
        default: nil
        }
    }

    // MARK: What is mentioned

    /// The board and the lists that the action names: created with that name where they are not here.
    private func mentions() throws(Problem) -> [ReplayStep] {
        var steps: [ReplayStep] = []
        if kind != "createBoard", kind != "copyBoard" { steps += try mention("board") }
        for name in ["listBefore", "listAfter", "list"] where !(kind == "createList" && name == "list") {
            steps += try mention("list", under: name, parent: "idBoard", in: "board")
        }
        return steps
    }

    private func mention(
        _ entity: String, under name: String? = nil, parent: String? = nil, in parentName: String? = nil
    ) throws(Problem) -> [ReplayStep] {
        guard let (key, node) = record(entity, under: name) else { return [] }
        var fields = try node.fields(of: try declared(entity))
        // What an update changed was different when the record was made.
        for (field, value) in try before(entity) where fields[field] != nil { fields[field] = value }
        guard addParent(parent, parentName, to: &fields) else { return [] }
        return [.mention(key, fields)]
    }

    // MARK: The kinds of edits

    private func create(
        _ entity: String, parent: String? = nil, in parentName: String? = nil
    ) throws(Problem) -> [ReplayStep] {
        guard let (key, node) = record(entity) else { return [] }
        var fields = try node.fields(of: try declared(entity))
        guard addParent(parent, parentName, to: &fields) else { return [] }
        return [.create(key, fields)]
    }

    private func update(_ entity: String) throws(Problem) -> [ReplayStep] {
        guard let (key, node) = record(entity) else { return [] }
        let (entity, before) = (try declared(entity), try before(entity))
        let present = try node.fields(of: entity)
        var after: [String: FieldValue] = [:]
        for field in entity.fields where before[field.name] != nil {
            if let value = present[field.name] {
                after[field.name] = value
            } else if !field.isRequired {
                after[field.name] = .null
            }
        }
        return after.isEmpty ? [] : [.update(key, before: before, after: after)]
    }

    /// A card's move names its lists beside the card, too.
    private func updateCard() throws(Problem) -> [ReplayStep] {
        let steps = try update("card")
        guard let (key, _) = record("card"), let to = data["listAfter"]?.reference("id") else { return steps }
        let isTold = steps.contains { step in
            if case .update(_, _, let after) = step { after["idList"] != nil } else { false }
        }
        guard !isTold else { return steps }
        let from = data["listBefore"]?.reference("id").map(FieldValue.string) ?? .null
        return steps + [.update(key, before: ["idList": from], after: ["idList": .string(to)])]
    }

    private func move(_ entity: String, _ field: String, to parentName: String) throws(Problem) -> [ReplayStep] {
        guard let (key, _) = record(entity), let parent = data[parentName]?.reference("id") else { return [] }
        return [.update(key, before: [:], after: [field: .string(parent)])]
    }

    /// Trello's exports have no action for a new check item, so its first tick makes it, as it was before.
    private func updateCheckItemState() throws(Problem) -> [ReplayStep] {
        guard let (key, node) = record("checkItem"), let checklist = data["checklist"]?.reference("id") else {
            return []
        }
        var made = try node.fields(of: try declared("checkItem"))
        guard case .string(let state)? = made["state"] else { return [] }
        let before: FieldValue = .string(state == "complete" ? "incomplete" : "complete")
        made["state"] = before
        made["idChecklist"] = .string(checklist)
        return try mention("checklist", parent: "idCard", in: "card") + [
            .mention(key, made), .update(key, before: ["state": before], after: ["state": .string(state)]),
        ]
    }

    private func updateComment() throws(Problem) -> [ReplayStep] {
        guard let action = data["action"], let id = action.reference("id"), let text = action["text"] else { return [] }
        let old = data["old"]?["text"]?.value ?? .null
        return [.update(RecordKey("comment", id), before: ["text": old], after: ["text": .string(try text.text())])]
    }

    private func delete(_ entity: String) throws(Problem) -> [ReplayStep] {
        record(entity).map { [.delete($0.key)] } ?? []
    }

    private func change(_ field: String, to element: String?, isPut: Bool) -> [ReplayStep] {
        guard let (key, _) = record("card"), let element else { return [] }
        return [isPut ? .put(key, field: field, .string(element)) : .take(key, field: field, .string(element))]
    }

    // MARK: Pieces

    private func record(_ entity: String, under name: String? = nil) -> (key: RecordKey, node: JSONNode)? {
        guard let node = data[name ?? entity], let id = node.reference("id") else { return nil }
        return (RecordKey(entity, id), node)
    }

    /// The declared fields of `entity` in `data.old`, if the action is an update of that entity.
    private func before(_ entity: String) throws(Problem) -> [String: FieldValue] {
        guard kind.lowercased().hasPrefix("update\(entity.lowercased())"), case .object(let old)? = data["old"]?.value
        else { return [:] }
        var fields: [String: FieldValue] = [:]
        for field in try declared(entity).fields {
            guard let value = old[field.name] else { continue }
            let place = "\(data.place).old.\(field.name)"
            fields[field.name] =
                value.isNull
                ? .null : try FieldReader(entity: entity, field: field, place: place).value(ofJSON: value)
        }
        return fields
    }

    private func declared(_ entity: String) throws(Problem) -> EntitySchema {
        guard let schema = schema[entity] else { throw Problem("The entity “\(entity)” is not declared.") }
        return schema
    }

    /// Puts the parent's id in where the record does not name it; false if there is none to be had.
    private func addParent(_ field: String?, _ name: String?, to fields: inout [String: FieldValue]) -> Bool {
        guard let field, let name else { return true }
        if fields[field] != nil { return true }
        guard let id = data[name]?.reference("id") else { return false }
        fields[field] = .string(id)
        return true
    }
}
