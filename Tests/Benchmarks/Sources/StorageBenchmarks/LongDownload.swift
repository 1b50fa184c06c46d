import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// 1,000,000 records come in: what memory it takes, and how long a write of the app's waits meanwhile.
enum LongDownload {
    static let slice = 500

    static func run(in folder: URL) async throws -> [Figure] {
        let store = try Store(
            path: folder.appendingPathComponent("long.sqlite").path, schema: ApplySlices.schema())
        let records = Int(ProcessInfo.processInfo.environment["FERRY_RECORDS"] ?? "") ?? 1_000_000
        let user = User(store.database)
        try user.prepare()
        let start = memory()
        var peak = start
        let watch = user.start()
        for first in stride(from: 0, to: records, by: slice) {
            let part = (first..<min(first + slice, records)).map { ApplySlices.record($0, round: 0) }
            _ = try await store.apply(
                PageSlice(records: part, from: Int64(first), checkpoint: Int64(first + part.count), epoch: "e"))
            if first % 10_000 == 0 { peak = max(peak, memory()) }
        }
        let waits = watch.end()
        peak = max(peak, memory())
        try await store.close()
        return [
            Figure(
                name: "apply-memory", what: "memory above the start while \(records) records come in, against 100 MB",
                value: Double(peak - start) / 1e6, unit: "MB", bare: 100, goal: 1),
            Figure(
                name: "write-while-applying",
                what: "p99 of \(waits.count) one-row writes of the app's while slices are applied, against 50 ms",
                value: waits[waits.count * 99 / 100] * 1e3, unit: "ms", bare: 50, goal: 1),
            Figure(
                name: "write-while-applying-longest", what: "the longest of them, against 50 ms",
                value: (waits.last ?? 0) * 1e3, unit: "ms", bare: 50, goal: 1),
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

/// Somebody who writes one row again and again on a thread of his own.
private final class User: @unchecked Sendable {  // the lock guards what both threads use
    private let database: any DatabaseWriter
    private let lock = NSLock()
    private var isOver = false
    private var waits: [Double] = []
    private let done = DispatchSemaphore(value: 0)

    init(_ database: any DatabaseWriter) { self.database = database }

    func prepare() throws {
        try database.write { try $0.execute(sql: "INSERT INTO card (id, field0) VALUES ('mine', 'x')") }
    }

    func start() -> User {
        Thread.detachNewThread { [self] in
            var number = 0
            while !lock.withLock({ isOver }) {
                number += 1
                do {
                    let time = try seconds {
                        try database.write {
                            try $0.execute(
                                sql: "UPDATE card SET field1 = ? WHERE id = 'mine'", arguments: ["edit \(number)"])
                        }
                    }
                    lock.withLock { waits.append(time) }
                } catch {
                    print("a write failed: \(error)")
                }
                Thread.sleep(forTimeInterval: 0.01)  // live: a user is no faster
            }
            done.signal()
        }
        return self
    }

    /// How long each write took, in seconds, the shortest first.
    func end() -> [Double] {
        lock.withLock { isOver = true }
        done.wait()
        return lock.withLock { waits.sorted() }
    }
}
