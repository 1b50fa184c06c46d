import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// A device's disk fails where the tape says, and SQLite does what it does with such a disk.
@Suite struct DiskShimTests {
    /// A disk that nothing is wrong with, under a file that is not there yet.
    private func made() throws -> (hook: DiskHook, path: String) {
        let folder = NSTemporaryDirectory() + "disk-\(UUID().uuidString)/device-0"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let (hook, path) = (DiskHook(), folder + "/device.sqlite")
        hook.revive(isUpgrade: false)
        DiskShim.put(hook, under: path)
        return (hook, path)
    }

    private func remove(_ path: String) {
        DiskShim.remove(path)
        let folder = URL(filePath: path).deletingLastPathComponent().deletingLastPathComponent()
        do { try FileManager.default.removeItem(at: folder) } catch { Issue.record(error) }
    }

    private func open(_ path: String) throws -> Store {
        var configuration = StoreConfiguration()
        configuration.installToken = nil
        configuration.busyTimeout = 0
        return try Store(path: path, schema: try SimulationOptions(folder: "").schema, configuration: configuration)
    }

    @Test(
        "PRC-09 an opening meets a disk that fails: it says so, moves nothing aside, and the next one opens",
        arguments: [
            (FaultTape.DiskFailure.full, StoreFailure.Kind.full), (.io, .io), (.busy, .busy), (.unreadable, .io),
        ])
    func opening(failure: FaultTape.DiskFailure, kind: StoreFailure.Kind) async throws {
        var failed = 0
        for after in 0..<8 {
            let (hook, path) = try made()
            defer { remove(path) }
            if failure == .unreadable {
                // A new file has nothing to be read.
                try await open(path).close()
                hook.revive(isUpgrade: false)
            }
            hook.openings = [(failure == .unreadable ? 2 : 1, failure, after)]
            do {
                // SQLite itself does without a few of its writes.
                try await open(path).close()
            } catch let found as StoreFailure {
                #expect(found.kind == kind, "after \(after)")
                #expect(hook.struck == [failure: 1], "after \(after)")
                failed += 1
            }
            hook.revive(isUpgrade: false)
            let store = try open(path)
            #expect(store.movedAside == nil, "after \(after)")
            #expect(!store.isBegunAnew, "after \(after)")
            try await store.close()
        }
        #expect(failed >= 2)
    }

    @Test("PRC-13 whichever read of an opening fails, the file is not taken for corrupt")
    func everyRead() async throws {
        let (hook, path) = try made()
        defer { remove(path) }
        try await open(path).close()
        var read = 0
        while true {
            hook.revive(isUpgrade: false)
            hook.openings = [(2 + read, .unreadable, read)]
            do {
                let store = try open(path)
                #expect(store.movedAside == nil, "read \(read)")
                try await store.close()
                if hook.struck[.unreadable] ?? 0 <= read { break }
            } catch let failure as StoreFailure {
                #expect(failure.kind == .io, "read \(read): \(failure)")
            }
            // Each of the first; then every seventh.
            read += read < 60 ? 1 : 7
        }
        #expect(read > 60)
    }

    @Test("A commit to a full disk leaves what was there, and the next one goes through")
    func fullDisk() throws {
        let (hook, path) = try made()
        defer { remove(path) }
        let pool = try DatabasePool(path: path)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (x); INSERT INTO t VALUES (1)") }
        hook.failures = [(0..<1, .full)]
        let found = #expect(throws: DatabaseError.self) {
            try pool.write { try $0.execute(sql: "UPDATE t SET x = 2") }
        }
        #expect(found?.resultCode == .SQLITE_FULL)
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT x FROM t") } == 1)
        hook.heal()
        try pool.write { try $0.execute(sql: "UPDATE t SET x = 3") }
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT x FROM t") } == 3)
        try pool.close()
    }

    @Test("A file that is no device's is left alone")
    func others() throws {
        let (hook, path) = try made()
        defer { remove(path) }
        hook.failures = [(0..<1, .full)]
        let other = try DatabaseQueue(path: path + "-other")
        try other.write { try $0.execute(sql: "CREATE TABLE t (x)") }
        try other.close()
        #expect(hook.struck.isEmpty)
    }
}
