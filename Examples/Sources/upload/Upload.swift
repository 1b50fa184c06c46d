import Ferry
import Foundation
import GRDB
import Logging
import SyncCore
import SyncTesting

/// Six edits made offline, a server with a bad day, and a queue between them that loses nothing and does nothing twice.
@main
struct Upload {
    static func main() async {
        do {
            try await Story().run()
        } catch {
            FileHandle.standardError.write(Data("It did not go as it should: \(error)\n".utf8))
            exit(1)
        }
    }
}

/// What did not come out as promised.
struct Surprise: Error, CustomStringConvertible {
    let description: String
}

/// The whole story, in a folder of its own that is gone afterwards.
struct Story {
    /// A note: a text, and votes that add up, whoever casts them.
    private let schema: Schema
    private let folder: URL

    init() throws {
        schema = try Schema([EntitySchema("note", fields: [.text("text"), .integer("votes", rule: .sum)])])
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-upload-\(UUID().uuidString)")
    }

    func run() async throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let notes = NotesServer()
        let server = try notes.start()
        let result: Result<Void, any Error>
        do {
            try await tell(notes, server)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        server.stop()
        try FileManager.default.removeItem(at: folder)
        try result.get()
    }

    private func tell(_ notes: NotesServer, _ server: HostileServer) async throws {
        var store = try open()
        print("1. Offline: six edits, in plain SQL. Each is in the queue with the commit.")
        for sql in [
            "INSERT INTO note (id, text, votes) VALUES ('groceries', 'Milk', 0)",
            "INSERT INTO note (id, text, votes) VALUES ('garden', 'Tulips', 0)",
            "INSERT INTO note (id, text, votes) VALUES ('offer', 'BUY NOW', 0)",
            "UPDATE note SET votes = votes + 1 WHERE id = 'groceries'",
            "UPDATE note SET votes = votes + 1 WHERE id = 'offer'",
            "DELETE FROM note WHERE id = 'garden'",
        ] { try await store.write { try $0.execute(sql: sql) } }
        for queued in try await store.queued() {
            print("   \(queued.change.sequence). \(Narrator.name(queued.change))")
        }

        print("2. Online, at last: \(server.url) has a bad day, and the queue sends one edit after another.")
        try await drain(store, server)

        print("3. The program ends, and is started again. What was set aside is in the file, with its reason:")
        try await store.close()
        store = try open()
        let queue = UploadQueue(log: store)
        for failure in try await queue.failures() {
            let needing = try await queue.dependants(of: failure.queued.change.id)
            print("   \(Narrator.name(failure.queued.change)): \(failure.reason.message) (\(failure.reason.code))")
            print("   to discard it would discard \(needing.count) more that need it")
        }
        try expect(try await store.summary().failed == 1, "one change should have been set aside")

        print("4. The note is put right, which ends the refusal: the note goes again, with what waited for it.")
        try await store.write { try $0.execute(sql: "UPDATE note SET text = 'Seeds to swap' WHERE id = 'offer'") }
        try await drain(store, server)

        let here = try await contents(store)
        print(
            "5. In step: \(here.count) notes here and there, \(server.requests.count) requests, \(notes.effects) effects."
        )
        for (id, fields) in here.sorted(by: { $0.key < $1.key }) {
            print("   \(id): \(try FieldValue.object(fields).jsonText())")
        }
        try expect(here == notes.contents, "the server should have the same: \(notes.contents)")
        try expect(try await store.summary() == QueueSummary(), "nothing should be left in the queue")
        try await store.close()
    }

    private func open() throws -> Store {
        try Store(path: folder.appendingPathComponent("notes.sqlite").path, schema: schema)
    }

    /// Runs the queue until nothing may go any more.
    private func drain(_ store: Store, _ server: HostileServer) async throws {
        let queue = UploadQueue(
            log: store, home: store, policy: UploadPolicy(baseDelay: .milliseconds(200), jitter: .added(upTo: .zero)))
        #if canImport(Darwin)
            let http = URLSessionTransport()
        #else
            let http = AsyncHTTPClientTransport()
        #endif
        // Nothing but what is told below: this program's output is its story.
        let logger = Logger(label: "upload") { _ in SwiftLogNoOpLogHandler() }
        let sender = try RESTSender(
            endpoint: server.url, mappings: ["note": RESTMapping(collection: "notes")], http: http,
            credentials: Tokens(), logger: logger)
        let events = queue.events()
        let counts = queue.counts()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: sender, gate: AlwaysOpen()) }
            group.addTask {
                do { try await Narrator(queue).tell(events) } catch { print("   the file cannot be read: \(error)") }
            }
            for await now in counts where now.waiting + now.inFlight == 0 { break }
            group.cancelAll()
        }
        await sender.close()
    }

    private func contents(_ store: Store) async throws -> [String: [String: FieldValue]] {
        try await store.database.read { db in
            var notes: [String: [String: FieldValue]] = [:]
            for row in try Row.fetchAll(db, sql: "SELECT id, text, votes FROM note") {
                notes[row[0]] = ["text": .string(row[1]), "votes": .int(row[2])]
            }
            return notes
        }
    }

    private func expect(_ holds: Bool, _ otherwise: String) throws {
        guard holds else { throw Surprise(description: otherwise) }
    }
}

/// The app's tokens: the first one has expired.
actor Tokens: Credentials {
    private var present = Token(value: "old")

    func token() -> Token? { present }

    func refresh(_ old: Token?) -> Token? {
        print("   the token has expired; a new one is fetched, and the request sent once more")
        present = Token(value: "new")
        return present
    }
}

/// An engine's gate knows pauses and connectivity; here a request may always go.
struct AlwaysOpen: Gate {
    func mayGo(_ urgency: Urgency) -> GateAnswer { .open }
}
