@testable import Storage
import SyncCore
import Testing

/// Records that are made, deleted, and made again under the same id: an undo, or an app whose ids are names.
@Suite struct MadeAnewTests {
    /// A card that was made and deleted here, both sent and neither answered, and made anew since.
    private func sentAndMadeAnew() async throws -> (f: Fixture, create: String, delete: String) {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n", name: "N")
        try await f.settle((try await f.claim().keys[0], .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let sent = try await f.claim().keys
        try #require(sent.count == 2)
        try await f.settle((sent[0], .unanswered), (sent[1], .unanswered))
        try f.insertCard("n", name: "Anew")
        return (f, sent[0], sent[1])
    }

    @Test("Seed 129 QUE-04 what was made anew stays when the sent create of what it was before is taken back")
    func createTakenBack() async throws {
        let (f, create, delete) = try await sentAndMadeAnew()
        _ = try await f.store.cancel(create)
        #expect(try f.card("name", "n") == "Anew")
        let claim = try await f.claim()
        #expect(claim.told == ["create card n", "delete card n", "create card n"])
        try await f.settle((create, .applied(6)), (delete, .applied(7)), (claim.keys[2], .applied(8)))
        #expect(try f.card("name", "n") == "Anew")
        #expect(try f.queued() == 0)
    }

    @Test("QUE-04 an edit that was sent before its record was deleted and made anew has nothing to be taken back")
    func editTakenBack() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Edited', votes = 5 WHERE id = 'c1'")
        let edit = try await f.claim().keys[0]
        try await f.settle((edit, .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('c1', 'Anew', 'l1', 1, 1)")
        _ = try await f.store.cancel(edit)
        #expect(try f.card("name") == "Anew")
        #expect(try f.int("SELECT votes FROM card WHERE id = 'c1'") == 1)
        #expect(try f.changes().map(\.operation) == [.update, .delete, .create])
    }
}
