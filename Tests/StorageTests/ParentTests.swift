@testable import Storage
import SyncCore
import Testing

/// Where the server has a record, for paths that go through its parent.
@Suite struct ParentTests {
    private static let card = RecordKey("card", "c1")

    @Test(
        "a record that was moved or deleted here stands where the server has it until that is decided",
        arguments: ["UPDATE card SET idList = 'l2' WHERE id = 'c1'", "DELETE FROM card WHERE id = 'c1'"])
    func unsent(edit: String) async throws {
        let f = try await Fixture.twoLists()
        #expect(try await f.store.parentID(of: Self.card) == "l1")
        try f.sql(edit)
        #expect(try await f.store.parentID(of: Self.card) == "l1")
        let claim = try await f.claim()
        #expect(try await f.store.parentID(of: Self.card) == "l1")
        try await f.settle((claim.keys[0], .applied(9)))
        #expect(try await f.store.parentID(of: Self.card) == (edit.hasPrefix("UPDATE") ? "l2" : nil))
    }

    @Test("what others moved stands where they did, also under what is unsent")
    func movedByOthers() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try await f.apply(record("card", "c1", 9, ["name": "Card", "idList": "l2", "pos": 1.0]))
        #expect(try await f.store.parentID(of: Self.card, through: "idList") == "l2")
        #expect(try await f.store.parentID(of: Self.card, through: "idBoard") == nil)
        #expect(try await f.store.parentID(of: RecordKey("board", "b1")) == nil)
        #expect(try await f.store.parentID(of: RecordKey("card", "none")) == nil)
    }

    @Test("both are called as the server calls them, whoever asks by whatever id")
    func serverIDs() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'B')")
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l1', 'L', 'b1', 1)")
        let claim = try await f.claim()
        try await f.settle(
            (claim.keys[0], .applied(version: 1, overwrote: [:], serverID: "SB")),
            (claim.keys[1], .applied(version: 2, overwrote: [:], serverID: "SL")))
        for id in ["l1", "SL"] { #expect(try await f.store.parentID(of: RecordKey("list", id)) == "SB") }
    }
}
