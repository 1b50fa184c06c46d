import Foundation
import SyncServer
import Testing

/// The code of the guide, compiled and run.
@Suite struct GuideTests {
    @Test("a server mounted in a few lines")
    func mounting() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("guide-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(at: folder) } catch { Issue.record(error) }
        }
        let path = folder.appendingPathComponent("notes.sqlite").path
        let inflatedBytes = Array(
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[]}"#.utf8)

        let service = try SyncService(
            path: path,
            configuration: ServerConfiguration(entities: [
                ServerEntity("notebook", collection: "notebooks", tracksActivity: true),
                ServerEntity("note", collection: "notes", parents: [.init(field: "notebook", entity: "notebook")]),
            ]))
        defer {
            do { try service.close() } catch { Issue.record(error) }
        }
        // POST /api/sync
        let reply = service.sync(account: "ada", body: inflatedBytes)
        // /1/…
        let other = service.rest(
            account: "ada",
            request: RESTRequest(
                method: "PUT", path: "/1/notes/n1", headers: [], body: Array(#"{"text":"Hello"}"#.utf8)))
        #expect(reply.status == 200)
        #expect(other.status == 404)
    }
}
