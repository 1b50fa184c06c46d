import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What a backup brings back to the very place it was taken from: the same path, and maybe the same inode.
@Suite("A file restored in its place")
struct RestoredFileTests {
    private func add(_ store: Store, _ id: String) async throws {
        try await store.database.write {
            try $0.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'B')", arguments: [id])
        }
    }

    /// Everything that stands beside the file, and itself.
    private func picture(_ file: TestFile) throws -> [URL: Data] {
        let files = try FileManager.default.contentsOfDirectory(at: file.folder, includingPropertiesForKeys: nil)
        return try Dictionary(uniqueKeysWithValues: files.map { ($0, try Data(contentsOf: $0)) })
    }

    /// Writes over each file, which stays the same file to the system.
    private func putBack(_ picture: [URL: Data]) throws {
        for (url, data) in picture {
            let handle = try FileHandle(forWritingTo: url)
            try handle.truncate(atOffset: 0)
            try handle.write(contentsOf: data)
            try handle.close()
        }
    }

    #if !canImport(Darwin)
        @Test("PRC-19 the whole folder is put back over itself: a new device, and what was unsent keeps the earlier id")
        func wholeFolder() async throws {
            let file = try TestFile()
            let first = try Store(path: file.path, schema: boardSchema())
            let device = try await first.position().deviceID
            try await add(first, "b1")
            try await first.close()
            let backup = try picture(file)
            #expect(backup.keys.contains { $0.path.hasSuffix("-install") })

            let lived = try Store(path: file.path, schema: boardSchema())
            #expect(try await lived.position().deviceID == device)
            try await add(lived, "b2")
            try await lived.close()

            let place = Identity.home(of: file.path)
            try putBack(backup)
            #expect(Identity.home(of: file.path) == place)
            let restored = try Store(path: file.path, schema: boardSchema())
            let other = try await restored.position().deviceID
            #expect(other != device)
            #expect(try await restored.queued().map(\.change.deviceID) == [device])
            #expect(try await restored.events().map(\.kind) == ["newDevice"])
            try await restored.close()
            let again = try Store(path: file.path, schema: boardSchema())
            #expect(try await again.position().deviceID == other)
            try await again.close()
        }
    #endif

    @Test(
        "PRC-15 a file without its log, which sent a change that only the log had: a new device",
        arguments: [true, false])
    func withoutLog(isSent: Bool) async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        let device = try await store.position().deviceID
        try await add(store, "b1")
        // From here on all is in the log; the number of openings is in the file.
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        let main = try Data(contentsOf: URL(fileURLWithPath: file.path))
        try await add(store, "b2")
        if isSent { #expect(try await store.settle(Settlement(), claim: ClaimLimits()).changes.count == 2) }
        try await store.close()
        try putBack([URL(fileURLWithPath: file.path): main])

        let again = try Store(path: file.path, schema: boardSchema())
        #expect(try await again.position().deviceID != device || !isSent)
        #expect(try await again.events().map(\.kind) == (isSent ? ["newDevice"] : []))
        try await again.close()
    }

    @Test(
        "PRC-19 a note of an earlier program, or none that can be read, changes nothing",
        arguments: ["3\n", "", "x", "3\nd\n"])
    func otherNotes(_ text: String) async throws {
        let file = try TestFile()
        let first = try Store(path: file.path, schema: boardSchema())
        let device = try await first.position().deviceID
        for _ in 0..<3 {
            let again = try Store(path: file.path, schema: boardSchema())
            try await again.close()
        }
        try await first.close()
        try Data(text.utf8).write(to: URL(fileURLWithPath: file.path + "-device"))
        let store = try Store(path: file.path, schema: boardSchema())
        #expect(try await store.position().deviceID == device)
        try await store.close()
        #expect(DeviceNote(database: file.path).read().openings == 5)
    }
}
