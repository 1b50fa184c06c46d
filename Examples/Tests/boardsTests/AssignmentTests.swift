import BoardsModel
import SyncCore
import Testing

@testable import boards

@Suite("FIELD=VALUE on the command line")
struct AssignmentTests {
    private func card(_ arguments: String...) throws -> [String: FieldValue] {
        let card = try #require(try BoardEntities.schema()["card"])
        return try Assignment.values(of: arguments, for: card)
    }

    @Test("each kind is read as the table declares it")
    func kinds() throws {
        let values = try card(
            "name=A=B", "desc=", "closed=true", "pos=1.5", "due=2026-11-21T09:00:00+01:00", "idLabels=[\"a\",\"b\"]",
            "start:null")
        #expect(
            values == [
                "name": "A=B", "desc": "", "closed": true, "pos": 1.5, "due": "2026-11-21T08:00:00.000Z",
                "idLabels": ["a", "b"], "start": .null,
            ])
    }

    @Test("a parent's UUID is taken in lower case")
    func uuid() throws {
        let values = try card("idList=0195A3F2-C4D1-7000-8000-00000000000F")
        #expect(values["idList"] == "0195a3f2-c4d1-7000-8000-00000000000f")
    }

    @Test(
        "a value of another type, and a field that is not there, are bad input",
        arguments: [
            "closed=yes", "closed=", "pos=many", "pos=nan", "pos=0x10", "pos=1e999", "due=tomorrow",
            "due=2026-02-30T00:00:00Z",
            "idLabels=a", "idLabels={}", "idLabels=[\"a\",\"a\"]", "idLabels=[[]]", "idList=", "idList=a b",
            "idList:null",
            "idBoard=x", "dateLastActivity=2026-11-21T09:00:00Z", "colour=red",
        ])
    func badInput(argument: String) throws {
        let problem = #expect(throws: Problem.self) { try card(argument) }
        #expect(problem?.exitCode == 1)
    }

    @Test(
        "a text that is no JSON, or one that is not taken, is told with what is wrong with it, and where",
        arguments: [
            ("[1,]", "at byte 3, expected a value"),
            ("[92233720368547758080]", "at byte 1, expected an integer of 64 bits, or a double"),
            ("[{\"a\":1,\"a\":2}]", "at byte 8, expected each member once"),
        ])
    func noJSON(text: String, reason: String) throws {
        let sentence = "The field “idLabels” of card must be JSON, like [\"a\",\"b\"]; “\(text)” is not: \(reason)."
        #expect(throws: Problem(sentence)) { try card("idLabels=\(text)") }
    }

    @Test("a field told twice is bad input")
    func twice() throws {
        #expect(throws: Problem("The field “name” is told twice.")) { try card("name=A", "name=B") }
    }

    @Test("what is no assignment at all is a wrong argument", arguments: ["name", "=A", ":null", ""])
    func shape(argument: String) throws {
        let problem = #expect(throws: Problem.self) { try card(argument) }
        #expect(problem?.exitCode == 2)
    }

    @Test("an integer keeps all of its 64 bits")
    func integers() throws {
        let attachment = try #require(try BoardEntities.schema()["attachment"])
        let values = try Assignment.values(of: ["bytes=9223372036854775807"], for: attachment)
        #expect(values == ["bytes": .int(.max)])
        #expect(throws: Problem.self) {
            try Assignment.values(of: ["bytes=9223372036854775808"], for: attachment)
        }
    }
}
