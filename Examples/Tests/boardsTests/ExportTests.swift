import BoardsModel
import SyncCore
import Testing

@testable import boards

@Suite("A Trello export")
struct ExportTests {
    private let schema: Schema

    init() throws { schema = try BoardEntities.schema() }

    @Test("the final state has every entity, parents before children")
    func finalState() throws {
        let state = try FinalState(BoardExport(SampleBoard.export()), schema: schema)
        var counts: [String: Int] = [:]
        for record in state.records { counts[record.key.entity, default: 0] += 1 }
        #expect(
            counts == [
                "board": 1, "list": 4, "card": 18, "label": 1, "checklist": 4, "checkItem": 12, "comment": 4,
                "attachment": 4,
            ])
        let fence = try #require(state.records.first { $0.fields["name"] == "Mend the fence" })
        #expect(fence.fields["pos"] == 32_769.0)
        #expect(fence.fields["idBoard"] == nil, "a card's board is its list's")
    }

    @Test(
        "what is no export is refused with one sentence",
        arguments: [
            "[]", "{}", #"{"id":"a"}"#, #"{"id":"a","lists":[],"cards":[]}"#,
            #"{"id":1,"lists":[],"cards":[],"actions":[]}"#, #"{"id":"a b","lists":[],"cards":[],"actions":[]}"#,
            #"{"id":"a","lists":{},"cards":[],"actions":[]}"#, #"{"id":"a","lists":[1],"cards":[],"actions":[]}"#,
            #"{"id":"a","lists":[{"name":"x"}],"cards":[],"actions":[]}"#,
            #"{"id":"a","lists":[{"id":"l","name":5}],"cards":[],"actions":[]}"#,
            #"{"id":"a","lists":[],"cards":[{"id":"c","idList":"l","due":"soon"}],"actions":[]}"#,
            #"{"id":"a","lists":[],"cards":[],"actions":[{"id":"x","date":"2026-11-21T08:00:00Z"}]}"#,
            #"{"id":"a","lists":[],"cards":[],"actions":[{"id":"x","type":"createCard","date":"now"}]}"#,
        ])
    func noExport(json: String) throws {
        let document = try FieldValue(json: json)
        let problem = #expect(throws: Problem.self) { try FinalState(BoardExport(document), schema: schema) }
        #expect(problem?.exitCode == 1)
        #expect(problem?.sentence.hasSuffix(".") == true)
    }

    @Test("actions are replayed oldest first, whichever way the file has them")
    func order() throws {
        let actions = [
            #"{"id":"3","type":"updateCard","date":"2026-01-03T00:00:00Z","data":{"card":{"id":"c","name":"C"},"old":{"name":"B"}}}"#,
            #"{"id":"2","type":"updateCard","date":"2026-01-02T00:00:00Z","data":{"card":{"id":"c","name":"B"},"old":{"name":"A"}}}"#,
            #"{"id":"1","type":"createBoard","date":"2026-01-02T00:00:00Z","data":{}}"#,
        ]
        for list in [actions, actions.reversed()] {
            let json = #"{"id":"b","lists":[],"cards":[],"actions":[\#(list.joined(separator: ","))]}"#
            let plan = try ReplayPlan(BoardExport(FieldValue(json: json)), schema: schema)
            #expect(plan.actions.map(\.kind) == ["createBoard", "updateCard", "updateCard"])
            #expect(plan.actions[1].steps == [update("card", "c", "name", "A", "B")])
        }
    }

    @Test("a move, a tick, a comment and a label become edits with before and after")
    func kinds() throws {
        #expect(
            try steps(
                "updateCard",
                #"{"card":{"id":"c","name":"x"},"listBefore":{"id":"l","name":"L"},"listAfter":{"id":"m","name":"M"},"old":{"idList":"l"}}"#
            ) == [update("card", "c", "idList", "l", "m")])
        #expect(
            try steps("updateCard", #"{"card":{"id":"c","due":null},"old":{"due":"2026-01-01T00:00:00Z"}}"#)
                == [update("card", "c", "due", "2026-01-01T00:00:00.000Z", .null)])
        #expect(
            try steps(
                "updateCheckItemStateOnCard",
                #"{"card":{"id":"c"},"checklist":{"id":"k","name":"K"},"checkItem":{"id":"i","name":"I","state":"complete"}}"#
            ) == [
                .mention(RecordKey("checklist", "k"), ["name": "K", "idCard": "c"]),
                .mention(RecordKey("checkItem", "i"), ["name": "I", "state": "incomplete", "idChecklist": "k"]),
                update("checkItem", "i", "state", "incomplete", "complete"),
            ])
        #expect(
            try steps("commentCard", #"{"card":{"id":"c"},"text":"Hi"}"#) == [
                .create(
                    RecordKey("comment", "act"), ["idCard": "c", "text": "Hi", "date": "2026-01-01T00:00:00.000Z"])
            ])
        #expect(
            try steps("removeLabelFromCard", #"{"card":{"id":"c"},"label":{"id":"y"}}"#)
                == [.take(RecordKey("card", "c"), field: "idLabels", "y")])
        #expect(try steps("deleteCard", #"{"card":{"id":"c"}}"#) == [.delete(RecordKey("card", "c"))])
        #expect(try steps("voteOnCard", #"{"card":{"id":"c"}}"#) == nil)
    }

    @Test("a board and a list that are only mentioned are made with the name given there")
    func mentions() throws {
        let steps = try steps(
            "createCard",
            #"{"board":{"id":"b","name":"B"},"list":{"id":"l","name":"L"},"card":{"id":"c","name":"C","idShort":4}}"#)
        #expect(
            steps == [
                .mention(RecordKey("board", "b"), ["name": "B"]),
                .mention(RecordKey("list", "l"), ["name": "L", "idBoard": "b"]),
                .create(RecordKey("card", "c"), ["name": "C", "idList": "l"]),
            ])
        #expect(
            try self.steps(
                "updateList", #"{"board":{"id":"b","name":"B"},"list":{"id":"l","name":"New"},"old":{"name":"Old"}}"#)
                == [
                    .mention(RecordKey("board", "b"), ["name": "B"]),
                    .mention(RecordKey("list", "l"), ["name": "Old", "idBoard": "b"]),
                    update("list", "l", "name", "Old", "New"),
                ])
    }

    private func steps(_ kind: String, _ data: String) throws -> [ReplayStep]? {
        let json = #"{"id":"act","type":"\#(kind)","date":"2026-01-01T00:00:00Z","data":\#(data)}"#
        let node = JSONNode(value: try FieldValue(json: json), place: "actions[0]")
        return try ActionReader(node, schema: schema).action().steps
    }

    private func update(
        _ entity: String, _ id: String, _ field: String, _ before: FieldValue, _ after: FieldValue
    ) -> ReplayStep {
        .update(RecordKey(entity, id), before: [field: before], after: [field: after])
    }
}
