import Foundation
import Storage
import SyncCore

@main struct Consumer {
    static func main() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("consumer-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let store = try Store(
            path: folder.appendingPathComponent("a.sqlite").path,
            schema: Schema([EntitySchema("note", fields: [.text("text")])]))
        try await store.write { db in try db.execute(sql: "INSERT INTO note (id, text) VALUES ('n1', 'Hello')") }
        print("waiting to be sent: \(try await store.queued().count)")
        try await store.close()
        try FileManager.default.removeItem(at: folder)
    }
}
