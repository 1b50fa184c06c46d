import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// Whose a damaged file is, and how long it is kept (Decision 492).
@Suite("SEC-11 a damaged file is its account's")
struct DamagedAccountTests {
    private func open(_ file: TestFile, _ account: String?) throws -> Store {
        try Store(path: file.path, schema: boardSchema(), account: account)
    }

    /// A file of Ada's with an unsent change, of which the header is gone.
    private func damaged() async throws -> TestFile {
        let file = try TestFile()
        let ada = try open(file, "ada")
        try await ada.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'SECRETWORD')") }
        try await ada.close()
        try file.breakHeader()
        return file
    }

    private func holdWord(_ file: TestFile) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: file.folder.path).filter { name in
            let data = try Data(contentsOf: file.folder.appendingPathComponent(name))
            return data.range(of: Data("SECRETWORD".utf8)) != nil
        }
    }

    @Test("SEC-11, PRC-14 another user is refused, as by a sound file, and the queue is saved for its own")
    func anotherUser() async throws {
        let file = try await damaged()
        for _ in 0..<2 {
            let refused = #expect(throws: StoreFailure.self) { _ = try open(file, "bob") }
            #expect(refused?.kind == .refused)
        }
        let ada = try open(file, "ada")
        #expect(ada.movedAside != nil)
        #expect(try await ada.queued().map(\.change.record.id) == ["b1"])
        try await ada.close()
        let refused = #expect(throws: StoreFailure.self) { _ = try open(file, "bob") }
        #expect(refused?.kind == .refused)
    }

    @Test("SEC-11 saved by who names no account, the queue is still its own user's")
    func unnamed() async throws {
        let file = try await damaged()
        let store = try open(file, nil)
        #expect(try await store.queued().count == 1)
        try await store.close()
        let refused = #expect(throws: StoreFailure.self) { _ = try open(file, "bob") }
        #expect(refused?.kind == .refused)
    }

    @Test("SEC-11 a sign-out takes damaged files with it that were moved aside, and no others")
    func signOut() async throws {
        let file = try await damaged()
        let other = file.folder.appendingPathComponent("other.sqlite.corrupt-1")
        try Data().write(to: other)
        let ada = try open(file, "ada")
        #expect(try holdWord(file).contains { $0.contains(Recovery.suffix) })
        try await ada.wipe()
        try await ada.close()
        #expect(try holdWord(file) == [])
        #expect(FileManager.default.fileExists(atPath: other.path))
        let bob = try open(file, "bob")
        #expect(try await bob.queued().isEmpty)
        try await bob.close()
    }

    @Test("SEC-11, PRC-20 killed between a wipe and that, the next opening does it")
    func killed() async throws {
        let file = try await damaged()
        let ada = try open(file, "ada")
        try await ada.database.write { db in
            try RowWriter.applying(db) { try db.execute(sql: "DELETE FROM board") }
            try EngineTables.empty(db)
            try Remnants.mark(db)
        }
        try await ada.close()
        #expect(try holdWord(file) != [])
        try await open(file, "bob").close()
        #expect(try holdWord(file) == [])
    }
}
