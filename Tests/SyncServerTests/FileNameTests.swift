import Foundation
import SyncCore
import Testing

@testable import SyncServer

@Suite("Names of a server's file")
struct FileNameTests {
    private let files = FileManager.default

    /// A second server under another name of the file that `server` has.
    private func opened(_ path: String, beside server: TestServer) throws -> SyncService {
        try SyncService(
            path: path, configuration: server.configuration, clock: server.clock, randomness: server.randomness)
    }

    @Test("a second server is refused by a symbolic link, through a linked folder and by a relative path, too")
    func links() throws {
        let server = try TestServer()
        let (link, folder) = (server.folder.path + "/link.sqlite", server.folder.path + "/linked")
        try files.createSymbolicLink(atPath: link, withDestinationPath: "data.sqlite")
        try files.createSymbolicLink(atPath: folder, withDestinationPath: server.folder.path)
        let up = files.currentDirectoryPath.split(separator: "/").map { _ in "../" }.joined()
        for path in [link, folder + "/data.sqlite", folder + "/link.sqlite", up + server.path.dropFirst()] {
            #expect(throws: ServiceFailure.fileInUse(path: path)) { try opened(path, beside: server) }
        }
    }

    @Test("who is refused closes its own descriptor, once: the number may be another file's by the second time")
    func refusedBesideOthers() async throws {
        let server = try TestServer()
        async let lost = Task.detached {
            var lost = 0
            for _ in 0..<50_000 where close(open("/dev/null", O_RDONLY)) != 0 { lost += 1 }
            return lost
        }.value
        for _ in 0..<5_000 {
            #expect(throws: ServiceFailure.self) { try FileLock(path: server.path, given: server.path) }
        }
        #expect(await lost == 0)
    }

    @Test("a file that a link promised, made by the server, has one server by the link and by its own name")
    func promised() throws {
        let server = try TestServer()
        let (link, target) = (server.folder.path + "/link.sqlite", server.folder.path + "/later.sqlite")
        try files.createSymbolicLink(atPath: link, withDestinationPath: "middle.sqlite")
        try files.createSymbolicLink(atPath: server.folder.path + "/middle.sqlite", withDestinationPath: target)
        let first = try opened(link, beside: server)
        #expect(files.fileExists(atPath: target))
        #expect(throws: ServiceFailure.fileInUse(path: target)) { try opened(target, beside: server) }
        try first.close()
        try opened(target, beside: server).close()
    }

    @Test("a file with a hard link is refused by each name, whether a server has it or not, and nothing of it is lost")
    func hardLink() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1")])
        let other = server.folder.path + "/other.sqlite"
        try files.linkItem(atPath: server.path, toPath: other)
        #expect(throws: ServiceFailure.severalNames(path: other)) { try opened(other, beside: server) }
        // The one that has it goes on.
        try server.sync("d", [server.create("k2", 2, "board", "b2")], from: 1)
        #expect(throws: ServiceFailure.severalNames(path: server.path)) { try server.restart() }
        #expect(throws: ServiceFailure.severalNames(path: other)) { try opened(other, beside: server) }
        #expect(!files.fileExists(atPath: other + "-wal"))
        try files.removeItem(atPath: other)
        try server.restart()
        #expect(try server.sync("e").records.count == 2)
    }

    @Test("a copy under a hard link's name would lack what is in the log: it is refused, and nothing is made")
    func copyByHardLink() throws {
        let server = try TestServer()
        let (other, target) = (server.folder.path + "/other.sqlite", server.folder.path + "/backup.sqlite")
        try files.linkItem(atPath: server.path, toPath: other)
        #expect(throws: ServiceFailure.severalNames(path: other)) {
            try SyncService.backup(database: other, to: target)
        }
        #expect(!files.fileExists(atPath: target))
        try files.removeItem(atPath: other)
    }

    @Test(
        "a server whose file was removed or replaced acknowledges nothing any more, and is not healthy",
        arguments: [true, false])
    func removed(hasAnother: Bool) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1")])
        try server.service.checkHealth()
        let copy = try Data(contentsOf: URL(fileURLWithPath: server.path))
        try files.moveItem(atPath: server.path, toPath: server.path + "-old")
        if hasAnother { try copy.write(to: URL(fileURLWithPath: server.path)) }
        let refused = try server.send("d", [server.create("k2", 2, "board", "b2")], from: 1)
        #expect(refused.status == 503 && refused.cause?.contains("was moved, removed or replaced") == true)
        #expect(throws: ServiceFailure.self) { try server.service.checkHealth() }
        // Put back, it is what it was.
        if hasAnother { try files.removeItem(atPath: server.path) }
        try files.moveItem(atPath: server.path + "-old", toPath: server.path)
        try server.sync("d", [server.create("k2", 2, "board", "b2")], from: 1)
        #expect(try server.sync("e").records.count == 2)
    }

    @Test(
        "a damaged file, or one that is no database, does not open, and the words say what to do",
        arguments: [true, false])
    func damaged(isWhole: Bool) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1")])
        try server.service.close()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: server.path))
        // Behind the header of the file, the schema; or all of the first page.
        try file.seek(toOffset: isWhole ? 0 : 100)
        try file.write(contentsOf: Data(repeating: 0x5a, count: isWhole ? 4_096 : 3_996))
        try file.close()
        let failure = #expect(throws: ServiceFailure.self) { try opened(server.path, beside: server) }
        let words = failure?.description ?? ""
        #expect(words.contains("damaged") && words.contains("restored") && !words.contains("SELECT"), "\(words)")
    }

    @Test("a folder is no server's file, and is not said to have another name")
    func folder() throws {
        let server = try TestServer()
        let folder = server.folder.path + "/folder"
        try files.createDirectory(atPath: folder, withIntermediateDirectories: false)
        #expect(throws: ServiceFailure.storage(path: folder, reason: "is a folder")) {
            try opened(folder, beside: server)
        }
    }
}
