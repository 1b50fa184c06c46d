import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// A process of its own (`Tests/StorageVictim`) is killed with SIGKILL at each statement of its work, and what it left is
/// opened here.
@Suite("A process killed at every statement", .serialized)
struct KilledProcessTests {
    /// Runs the program once for each statement, until one run comes to its end.
    /// - Returns: how many were killed.
    private func killEach(
        _ work: String, check: (Store) async throws -> Void
    ) async throws -> Int {
        for statement in 1...200 {
            let file = try TestFile()
            let end = try Victim.run([work, file.path, "\(statement)"])
            if end == .died { try await look(at: file, check) }
            guard end == .died else {
                #expect(end == .finished)
                try await look(at: file, check)
                return statement - 1
            }
        }
        Issue.record("the work has no end")
        return 0
    }

    private func look(at file: TestFile, _ check: (Store) async throws -> Void) async throws {
        let store = try Store(path: file.path, schema: schema())
        #expect(try await store.integrityProblems().isEmpty)
        #expect(store.movedAside == nil)
        try await check(store)
        try await store.close()
    }

    private func schema() throws -> Schema {
        try Schema([
            EntitySchema("board", fields: [.text("name", required: true), .boolean("closed")]),
            EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
        ])
    }

    @Test("PRC-01, I1, I4 a write: its rows with their changes, or none")
    func write() async throws {
        let seen = Tally()
        let killed = try await killEach("write") { store in
            let rows = try await store.database.read { db in
                try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM board) + (SELECT count(*) FROM list)") ?? 0
            }
            seen.add("\(rows) \(try await store.queued().count)")
        }
        #expect(killed > 5)
        #expect(seen.all == ["0 0", "2 3"])
    }

    @Test("PRC-12, I4 a write that the app's suspension meets is broken off, and holds no lock; the next one works")
    func suspended() async throws {
        let file = try TestFile()
        #expect(try Victim.run(["suspend", file.path, "0"]) == .finished)
        try await look(at: file) { store in
            let rows = try await store.database.read { try String.fetchAll($0, sql: "SELECT id FROM board") }
            #expect(rows == ["b3"])
            #expect(try await store.queued().map(\.change.record.id) == ["b3"])
        }
    }

    @Test("PRC-06, I1 a verdict with the claim of the next: both, or the change is there as it was")
    func verdict() async throws {
        let seen = Tally()
        let killed = try await killEach("verdict") { store in
            let queued = try await store.queued().map { "\($0.change.record.id) \($0.state.rawValue)" }
            let version = try await store.database.read {
                try Int64.fetchOne($0, sql: "SELECT version FROM sync_record") ?? 0
            }
            seen.add("\(queued.joined(separator: " ")) \(version)")
        }
        #expect(killed > 4)
        #expect(seen.all == ["b1 uncertain b2 pending 0", "b2 uncertain 7"])
    }

    @Test("DL-05, I4, I5 a slice: its rows with its checkpoint, or neither; the unsent edit stays")
    func slice() async throws {
        let seen = Tally()
        let killed = try await killEach("slice") { store in
            let rows = try await store.database.read {
                try String.fetchAll($0, sql: "SELECT id || name || coalesce(closed, '') FROM board ORDER BY id")
            }
            let position = try await store.position()
            seen.add("\(position.checkpoint) \(position.held) \(rows.joined(separator: " "))")
            #expect(try await store.queued().count == 1)
        }
        #expect(killed > 5)
        #expect(seen.all == ["1 0 b1A1", "4 1 b1B1 b2C"])
    }

    @Test("PRC-20, SEC-11 a wipe: all rows with all changes, or neither, and then no byte of them once it is opened")
    func wipe() async throws {
        let seen = Tally()
        let killed = try await killEach("wipe") { store in
            let rows = try await store.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") ?? 0 }
            seen.add("\(rows) \(try await store.queued().count)")
            guard rows == 0 else { return }
            for suffix in ["", "-wal"] {
                let data = try Data(contentsOf: URL(fileURLWithPath: store.database.path + suffix))
                #expect(data.range(of: Data("SECRETWORD".utf8)) == nil, "\(suffix)")
            }
        }
        #expect(killed > 20)
        #expect(seen.all == ["0 0", "9 4"])
    }

    @Test(
        "PRC-09, PRC-20 a wiped file that cannot be written anew, since no file may grow: told, and done by the next call",
        arguments: [false, true])
    func wipeWithoutRoom(isSameProcess: Bool) async throws {
        let file = try TestFile()
        #expect(try Victim.run([isSameProcess ? "wipe-again" : "wipe-full", file.path, "0"]) == .finished)
        let isHere = { (suffix: String) in
            let data = FileManager.default.contents(atPath: file.path + suffix) ?? Data()
            return data.range(of: Data("SECRETWORD".utf8)) != nil
        }
        #expect(["", "-wal"].contains(where: isHere) == !isSameProcess)
        try await look(at: file) { store in
            let rows = try await store.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") }
            #expect(rows == 0)
            #expect(try await store.queued().isEmpty)
            #expect(!["", "-wal"].contains(where: isHere))
            #expect(try store.read { try Meta.integer($0, .wiping) } == nil)
        }
    }

    /// 1,000,000 records with `FERRY_LONG=1`; the shortened form is for every day.
    @Test("DL-20 a long first download, killed 20 times: it completes, and goes on where it was")
    func longPull() async throws {
        let isLong = ProcessInfo.processInfo.environment["FERRY_LONG"] != nil
        let records = isLong ? 1_000_000 : 30_000
        let file = try TestFile()
        var reached: Int64 = 0
        var killed = 0
        for round in 1...20 {
            // A slice has 1,000 statements and more; each round dies within one, a bit further on.
            let statement = (isLong ? 95_000 : 2_600) + round * 17
            let end = try Victim.run(["pull", file.path, "\(statement)", "\(records)"])
            guard end == .died else { break }
            killed += 1
            let store = try Store(path: file.path, schema: schema())
            let checkpoint = try await store.position().checkpoint
            let rows = try await store.database.read { try Int64.fetchOne($0, sql: "SELECT count(*) FROM board") }
            #expect(checkpoint >= reached)
            #expect(rows == checkpoint)
            reached = checkpoint
            try await store.close()
        }
        #expect(killed == 20)
        #expect(reached > 0)
        #expect(try Victim.run(["pull", file.path, "\(Int.max)", "\(records)"]) == .finished)
        let store = try Store(path: file.path, schema: schema())
        #expect(try await store.position().checkpoint == Int64(records))
        #expect(try await store.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") } == records)
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
    }

    @Test("Two processes that make one file at once both get it, and wait for each other")
    func firstOpening() async throws {
        let file = try TestFile()
        let all = try (0..<4).map { _ in try Victim.start(["write", file.path, "\(Int.max)"]) }
        let ends = all.map { Victim.end(of: $0) }
        // The first writes its rows; the others open the file, and find the ids taken.
        #expect(ends.count { $0 == .finished } == 1)
        let store = try Store(path: file.path, schema: schema())
        #expect(try await store.queued().count == 3)
        #expect(store.movedAside == nil)
        try await store.close()
    }
}

/// The program beside the tests.
enum Victim {
    enum End: Equatable {
        case finished
        /// By SIGKILL.
        case died
        case failed(Int32)
    }

    static func run(_ arguments: [String]) throws -> End { end(of: try start(arguments)) }

    static func start(_ arguments: [String]) throws -> Process {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }

    static func end(of process: Process) -> End {
        process.waitUntilExit()
        if process.terminationReason == .uncaughtSignal {
            return process.terminationStatus == SIGKILL ? .died : .failed(process.terminationStatus)
        }
        return process.terminationStatus == 0 ? .finished : .failed(process.terminationStatus)
    }

    /// SwiftPM puts all programs of a build into one folder: on Linux the tests' own, on Apple that of their bundle.
    private static var program: URL {
        var folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        for bundle in Bundle.allBundles where bundle.bundlePath.hasSuffix(".xctest") {
            folder = bundle.bundleURL.deletingLastPathComponent()
        }
        return folder.appendingPathComponent("storage-victim")
    }
}
