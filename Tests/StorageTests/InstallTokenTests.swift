import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("The installation's token")
struct InstallTokenTests {
    /// What a platform keeps outside backups.
    private final class Kept: InstallToken, @unchecked Sendable {  // the lock guards both fields
        private let lock = NSLock()
        private var tokens: [String: String] = [:]
        private var failure: StoreFailure?

        func token(for database: String) throws -> String? {
            try lock.withLock {
                if let failure { throw failure }
                return tokens[database]
            }
        }

        func keep(_ token: String, for database: String) throws {
            try lock.withLock {
                if let failure { throw failure }
                tokens[database] = token
            }
        }

        func set(_ token: String?, for database: String) { lock.withLock { tokens[database] = token } }
        func fail(_ failure: StoreFailure?) { lock.withLock { self.failure = failure } }
    }

    private func open(_ file: TestFile, _ kept: Kept) throws -> Store {
        try Store(path: file.path, schema: boardSchema(), configuration: StoreConfiguration(installToken: kept))
    }

    /// Opens, asks for the device, and closes.
    private func device(_ file: TestFile, _ kept: Kept) async throws -> String {
        let store = try open(file, kept)
        let device = try await store.position().deviceID
        try await store.close()
        return device
    }

    @Test("PRC-19 the same installation is the same device, however often it opens the file")
    func same() async throws {
        let (file, kept) = (try TestFile(), Kept())
        let first = try await device(file, kept)
        #expect(try kept.token(for: file.path)?.isEmpty == false)
        #expect(try await device(file, kept) == first)
        #expect(try await device(file, kept) == first)
    }

    @Test(
        "PRC-19 a file that a backup brought back in its very place finds no token, or another: a new device, once",
        arguments: [nil, "another"])
    func restored(_ found: String?) async throws {
        let (file, kept) = (try TestFile(), Kept())
        let store = try open(file, kept)
        let first = try await store.position().deviceID
        try await store.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        try await store.close()
        kept.set(found, for: file.path)
        let again = try open(file, kept)
        let second = try await again.position().deviceID
        #expect(second != first)
        #expect(try await again.queued().map(\.change.deviceID) == [first])
        #expect(try await again.events().map(\.kind) == ["newDevice"])
        try await again.close()
        #expect(try await device(file, kept) == second)
    }

    @Test("A token that cannot be read or kept now changes nothing; a later opening keeps one")
    func unreadable() async throws {
        let (file, kept) = (try TestFile(), Kept())
        kept.fail(StoreFailure(kind: .io, message: "locked"))
        let first = try await device(file, kept)
        kept.fail(nil)
        #expect(try await device(file, kept) == first)
        let token = try kept.token(for: file.path)
        #expect(token != nil)
        kept.fail(StoreFailure(kind: .io, message: "locked"))
        #expect(try await device(file, kept) == first)
        kept.fail(nil)
        #expect(try await device(file, kept) == first)
        #expect(try kept.token(for: file.path) == token)
    }

    @Test("PRC-19 killed between the token and the file: the token is taken over")
    func killedBetween() async throws {
        let (file, kept) = (try TestFile(), Kept())
        kept.set("first", for: file.path)
        let first = try await device(file, kept)
        #expect(try kept.token(for: file.path) == "first")
        #expect(try await device(file, kept) == first)
    }
}
