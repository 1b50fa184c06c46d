import SyncCore
import Testing

@testable import SyncServer

@Suite("A record that refers to itself")
struct SelfReferenceTests {
    private func change(
        _ sequence: Int64, _ operation: SyncCore.Operation, _ key: RecordKey, base: Int64? = nil,
        _ values: [String: FieldValue]
    ) -> Change {
        Change(
            id: "k\(sequence)", sequence: sequence, record: key, operation: operation,
            stamp: Stamp(milliseconds: 1_000_000 + UInt64(sequence), counter: 0), baseVersion: base,
            fields: values.mapValues { FieldDelta(old: .null, new: $0, rule: .lastWriter) })
    }

    @Test(
        "DAT-11 is taken as it is made and as it comes to do so, and told like any other",
        arguments: EitherServer.allCases)
    func taken(kind: EitherServer) throws {
        let server = try kind.make()
        let (one, two) = (RecordKey("card", "c1"), RecordKey("card", "c2"))
        let told = try server.ask(
            "a",
            [
                change(1, .create, RecordKey("board", "b"), ["name": "B"]),
                change(2, .create, RecordKey("list", "l"), ["idBoard": "b", "name": "L"]),
                change(3, .create, one, ["idList": "l", "name": "One", "idTwin": "c1"]),
                change(4, .create, two, ["idList": "l", "name": "Two"]),
                change(5, .update, two, ["idTwin": "c2"]),
            ], of: [:], limit: 100)
        #expect(told.results.map(\.verdict) == Array(repeating: "applied", count: 5))
        let page = try server.ask("b", [], of: ["board:b": 0], limit: 100)
        #expect(page.records.map(\.key.id).sorted() == ["b", "c1", "c2", "l"])
        #expect(!page.hasMore)
        // It goes as any other, too.
        let gone = try server.ask(
            "a", [change(6, .delete, one, base: told.results[2].version, [:])], of: [:], limit: 100)
        #expect(gone.results.map(\.verdict) == ["applied"])
    }
}
