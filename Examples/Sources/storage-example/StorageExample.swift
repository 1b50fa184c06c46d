import Foundation
import GRDB
import Storage
import SyncCore

/// `Examples/run storage`: the local database alone, without queue, network or engine.
///
/// The program plays the server itself. Each step says what it did and what the database says of it; a step that comes
/// out otherwise ends the program with 1.
@main
struct StorageExample {
    static func main() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("storage-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appendingPathComponent("boards.sqlite").path
        try await run(path)
        try FileManager.default.removeItem(at: folder)
    }

    private static func run(_ path: String) async throws {
        let schema = try Schema([
            EntitySchema("board", fields: [.text("name", required: true), .boolean("closed")]),
            EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
        ])
        var store = try Store(path: path, schema: schema, account: "ada")

        // The app writes its own tables, with plain SQL; whatever it writes is in the queue by the same commit.
        try await store.database.write { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'Garden')")
            try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l1', 'Seeds', 'b1')")
            try db.execute(sql: "UPDATE board SET name = 'The garden' WHERE id = 'b1'")
        }
        try say("after three writes", await waiting(store), "create board b1, create list l1, update board b1")

        // A draft waits, others go on.
        try await store.write { [store] db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'Not yet')")
            try store.hold([RecordKey("board", "b2")], in: db)
        }
        // What goes next, marked as being sent before the first byte leaves.
        let claim = try await store.settle(Settlement(), claim: ClaimLimits())
        say("claimed", told(claim), "create board b1, create list l1, update board b1")

        // The app dies here. What was sent is sent again as it was, under the same keys.
        try await store.close()
        store = try Store(path: path, schema: schema, account: "ada")
        let again = try await store.settle(Settlement(), claim: ClaimLimits())
        say(
            "the same keys after a restart", "\(again.changes.map(\.change.id) == claim.changes.map(\.change.id))",
            "true")

        // Verdicts: two done, one refused, which goes back to what the server has.
        let keys = again.changes.map(\.change.id)
        let refusal = SetAsideReason(code: "forbidden", message: "This board keeps its name.")
        _ = try await store.settle(
            Settlement(outcomes: [
                .init(changeID: keys[0], kind: .applied(version: 1, overwrote: [:], serverID: nil)),
                .init(changeID: keys[1], kind: .applied(version: 2, overwrote: [:], serverID: nil)),
                .init(changeID: keys[2], kind: .setAside(refusal, staysUncertain: false)),
            ]), claim: nil)
        try say("the refused name is taken back", await text(store, "SELECT name FROM board WHERE id = 'b1'"), "Garden")
        let failure = try await store.failures().first
        say("and kept, with its reason", failure.map { "\($0.reason.code)" } ?? "", "forbidden")
        if let failure { _ = try await store.discard(failure.queued.change.id) }

        // A page comes over an edit that was not sent: the device goes on reading its own value.
        try await store.database.write { try $0.execute(sql: "UPDATE list SET name = 'My seeds'") }
        let theirs = ServerRecord(
            key: RecordKey("list", "l1"), version: 3, fields: ["name": "Their seeds", "idBoard": "b1"])
        let report = try await store.apply(PageSlice(records: [theirs], from: 0, checkpoint: 3, epoch: "e-1"))
        try say("read your writes", await text(store, "SELECT name FROM list"), "My seeds")
        say("conflicts in the journal", "\(report.conflicts)", "1")

        // The draft is released, and everything that waits goes.
        try await store.release([RecordKey("board", "b2")])
        let last = try await store.settle(Settlement(), claim: ClaimLimits())
        say("at last", told(last), "create board b2, update list l1")
        try say("problems in the file", "\(await store.integrityProblems().count)", "0")
        try await store.close()
    }

    private static func waiting(_ store: Store) async throws -> String {
        try await store.queued().map { "\($0.change.operation.rawValue) \($0.change.record)" }.joined(separator: ", ")
    }

    private static func told(_ claim: Claim) -> String {
        claim.changes.map { "\($0.change.operation.rawValue) \($0.change.record)" }.joined(separator: ", ")
    }

    private static func text(_ store: Store, _ sql: String) async throws -> String {
        try await store.database.read { try String.fetchOne($0, sql: sql) ?? "" }
    }

    private static func say(_ what: String, _ found: String, _ expected: String) {
        print("\(what): \(found)")
        guard found != expected else { return }
        print("    expected: \(expected)")
        exit(1)
    }
}
