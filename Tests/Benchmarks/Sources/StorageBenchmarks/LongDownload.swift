import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// 1,000,000 records come in: what memory it takes, and how long a write of the app's waits meanwhile.
///
/// The same writes without a download, just before, tell what of it is the machine's and the disk's.
enum LongDownload {
    static let slice = 500

    static func run(in folder: URL) async throws -> [Figure] {
        let path = folder.appendingPathComponent("long.sqlite").path
        let store = try Store(path: path, schema: ApplySlices.schema())
        let records = Int(ProcessInfo.processInfo.environment["FERRY_RECORDS"] ?? "") ?? 1_000_000
        try await store.database.write { try $0.execute(sql: "INSERT INTO card (id, field0) VALUES ('mine', 'x')") }
        let alone = User(store.database, "1").start()
        try await Task.sleep(for: .seconds(10))  // live: so long it writes alone
        let before = alone.end()
        let start = memory()
        var peak = start
        // Another process has a connection of its own, and waits for SQLite's lock, not for the writer's turn.
        let second = try Store(path: path, schema: ApplySlices.schema())
        let watch = User(store.database, "2").start()
        let other = User(second.database, "3").start()
        for first in stride(from: 0, to: records, by: slice) {
            let part = (first..<min(first + slice, records)).map { ApplySlices.record($0, round: 0) }
            _ = try await store.apply(
                PageSlice(records: part, from: Int64(first), checkpoint: Int64(first + part.count), epoch: "e"))
            if first % 10_000 == 0 { peak = max(peak, memory()) }
        }
        let waits = watch.end()
        let others = other.end()
        peak = max(peak, memory())
        try await second.close()
        try await store.close()
        return [
            Figure(
                name: "apply-memory", what: "memory above the start while \(records) records come in, against 100 MB",
                value: Double(peak - start) / 1e6, unit: "MB", bare: 100, goal: 1),
            Figure(
                name: "write-while-applying",
                what: "p99 of \(waits.count) one-row writes of the app's while slices are applied, against 50 ms",
                value: waits.total(at: 0.99), unit: "ms", bare: 50, goal: 1),
            Figure(
                name: "write-while-applying-longest",
                what: "the longest of them, against 50 ms; \(waits.longest); without a download: \(before.longest)",
                value: waits.total(at: 1), unit: "ms", bare: 50, goal: 1),
            Figure(
                name: "write-of-others",
                what: "p99 of \(others.count) one-row writes by a connection of its own, as another process has it; "
                    + "against 50 ms; \(others.longest)",
                value: others.total(at: 0.99), unit: "ms", bare: 50, goal: .infinity),
        ]
    }

    /// What of this process is in memory, in bytes.
    private static func memory() -> Int {
        guard let status = FileManager.default.contents(atPath: "/proc/self/status") else { return 0 }
        for line in String(decoding: status, as: UTF8.self).split(separator: "\n") where line.hasPrefix("VmRSS:") {
            return (Int(line.split(separator: " ").dropFirst().first ?? "") ?? 0) * 1_024
        }
        return 0
    }
}

/// How long a write took, in milliseconds: until it had its turn, and all in all.
private struct Wait {
    let turn: Double
    let total: Double
}

extension [Wait] {
    /// In milliseconds, of those that are in order.
    fileprivate func total(at part: Double) -> Double {
        isEmpty ? 0 : self[Swift.min(count - 1, Int(Double(count) * part))].total
    }

    /// The longest, in words.
    fileprivate var longest: String {
        guard let last else { return "none" }
        func short(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }
        return "the longest took \(short(last.total)) ms, \(short(last.turn)) of them until its turn"
    }
}

/// Somebody who writes one row again and again on a thread of his own.
private final class User: @unchecked Sendable {  // the lock guards what both threads use
    private let database: any DatabaseWriter
    private let field: String
    private let lock = NSLock()
    private var isOver = false
    private var waits: [Wait] = []
    private let done = DispatchSemaphore(value: 0)

    init(_ database: any DatabaseWriter, _ field: String) {
        self.database = database
        self.field = field
    }

    func start() -> User {
        Thread.detachNewThread { [self] in
            var number = 0
            while !lock.withLock({ isOver }) {
                number += 1
                do {
                    let clock = ContinuousClock()
                    let start = clock.now
                    let turn = try database.write { db in
                        let turn = clock.now
                        try db.execute(
                            sql: "UPDATE card SET field\(field) = ? WHERE id = 'mine'", arguments: ["edit \(number)"])
                        return turn
                    }
                    let total = clock.now - start
                    let wait = Wait(turn: (turn - start) / .milliseconds(1), total: total / .milliseconds(1))
                    lock.withLock { waits.append(wait) }
                } catch {
                    print("a write failed: \(error)")
                }
                Thread.sleep(forTimeInterval: 0.01)  // live: a user is no faster
            }
            done.signal()
        }
        return self
    }

    /// The writes, the shortest first.
    func end() -> [Wait] {
        lock.withLock { isOver = true }
        done.wait()
        return lock.withLock { waits.sorted { $0.total < $1.total } }
    }
}
