import BoardsModel
import SyncCore
import Testing

@testable import boards

@Suite("The canonical form of records")
struct CanonicalTests {
    @Test("keys are sorted, every declared field is there, records are sorted by entity and id")
    func form() throws {
        let schema = try BoardEntities.schema()
        let records = [
            LocalRecord(RecordKey("list", "b"), ["name": "Ü\n\"", "idBoard": "x", "pos": 1.5, "closed": false]),
            LocalRecord(RecordKey("list", "B"), ["idBoard": "x", "extra": 1]),
            LocalRecord(RecordKey("label", "z"), ["idBoard": "x"]),
        ]
        #expect(
            Canonical.lines(records, schema: schema) == """
                {"color":null,"entity":"label","id":"z","idBoard":"x","name":null}
                {"closed":null,"entity":"list","id":"B","idBoard":"x","name":null,"pos":null}
                {"closed":false,"entity":"list","id":"b","idBoard":"x","name":"Ü\\n\\"","pos":1.5}

                """)
    }

    @Test("a set keeps its order, and what is new follows")
    func sets() {
        #expect(ElementSet.ordered(["c", "b", "a"], after: ["a", "x", "b"]) == ["a", "b", "c"])
        #expect(ElementSet.ordered(["c"], after: .null) == ["c"])
        #expect(ElementSet.putting("a", into: .null) == ["a"])
        #expect(ElementSet.putting("a", into: ["a"]) == ["a"])
        #expect(ElementSet.taking("a", from: ["b", "a"]) == ["b"])
    }
}
