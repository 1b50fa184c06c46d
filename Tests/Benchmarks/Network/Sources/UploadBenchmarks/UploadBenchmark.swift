import Foundation
import GRDB
import HTTPTypes
import Logging
import Storage
import SyncCore
import Transport
import UploadQueue

/// What the upload queue costs, over loopback to a server that answers at once: one request a change beside a bare
/// loop, requests of 500, and how time and memory grow from 10,000 changes to 100,000.
enum UploadBenchmark {
    /// One request a change beside the bare loop, and requests of 500 beside that.
    /// - Parameter count: how many changes.
    static func rates(in folder: URL, _ count: Int) async throws -> [Figure] {
        let places = Places(folder, "rates")
        _ = try await bare(places, 500)
        _ = try await single(places, 500)
        var singles: [(ours: Double, bare: Double)] = []
        var batches: [Double] = []
        // Alternating, so that a machine that slows down slows all of them.
        for _ in 0..<5 {
            let bare = try await bare(places, count)
            singles.append((try await single(places, count).seconds, bare))
            batches.append(try await batch(places, count).seconds)
        }
        let middle = singles.sorted { $0.ours / $0.bare < $1.ours / $1.bare }[singles.count / 2]
        let batched = batches.sorted()[batches.count / 2]
        return [
            Figure(
                name: "upload-single",
                what:
                    "a change of \(count), one request each (\(rate(middle.ours, count))), against a bare loop with the "
                    + "same HTTP client and one commit a request (\(rate(middle.bare, count)))",
                value: middle.ours / Double(count) * 1e6, unit: "us", bare: middle.bare / Double(count) * 1e6,
                goal: 1 / 0.8),
            Figure(
                name: "upload-batch",
                what: "a change of \(count) in requests of 500 (\(rate(batched, count))), against one request each",
                value: batched / Double(count) * 1e6, unit: "us", bare: middle.ours / Double(count) * 1e6, goal: 0.1),
        ]
    }

    /// How time and memory grow to ten times as many changes, in requests of 500.
    static func growth(in folder: URL, _ count: Int) async throws -> [Figure] {
        try await growth(Places(folder, "growth"), count, "in requests of 500", "upload", batch)
    }

    /// The same, one request each.
    static func singleGrowth(in folder: URL, _ count: Int) async throws -> [Figure] {
        try await growth(Places(folder, "single"), count, "one request each", "upload-single", single)
    }

    private static func growth(
        _ places: Places, _ count: Int, _ how: String, _ name: String, _ drain: (Places, Int) async throws -> Drain
    ) async throws -> [Figure] {
        _ = try await drain(places, count)
        // On both sides of the long one, so that a machine that slows down or comes to itself is noticed.
        var few: [Double] = []
        for _ in 0..<3 { few.append(try await drain(places, count).seconds) }
        let many = try await drain(places, count * 10)
        for _ in 0..<3 { few.append(try await drain(places, count).seconds) }
        few.sort()
        return [
            Figure(
                name: "\(name)-linear",
                what: "\(count * 10) changes \(how), against \(count) (the middle of six, \(few[0]) to \(few[5]) s)",
                value: many.seconds, unit: "s", bare: (few[2] + few[3]) / 2, goal: 11),
            Figure(
                name: "\(name)-memory",
                what: "the rise of resident memory while \(count * 10) changes drain \(how); bare is 1 MB",
                value: many.rise, unit: "MB", bare: 1, goal: 50),
        ]
    }

    private static func rate(_ seconds: Double, _ count: Int) -> String { "\(Int(Double(count) / seconds)) a second" }

    /// A fresh file for each run.
    private final class Places {
        private let folder: URL
        private let name: String
        private var number = 0
        init(_ folder: URL, _ name: String) { (self.folder, self.name) = (folder, name) }
        func next() -> String {
            number += 1
            return folder.appendingPathComponent("\(name)-\(number).sqlite").path
        }
    }

    private struct Open: Gate {
        func mayGo(_ urgency: Urgency) -> GateAnswer { .open }
    }

    private static let quiet = Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() }
    private static let text = "a text of an ordinary length, as a card's name has it"

    /// A store with so many creates in its queue.
    private static func store(_ path: String, _ count: Int) async throws -> Store {
        let schema = try Schema([EntitySchema("note", fields: [.text("text"), .integer("votes")])])
        let store = try Store(path: path, schema: schema)
        try await store.database.write { db in
            let insert = try db.cachedStatement(sql: "INSERT INTO note (id, text, votes) VALUES (?, ?, 1)")
            for number in 0..<count { try insert.execute(arguments: [id(number), text]) }
        }
        return store
    }

    private static func id(_ number: Int) -> String { "0195a3f2-c4d1-7000-8000-\(String(number + 100_000_000_000))" }

    // MARK: The bare parts

    /// One request after another, and one commit for each that takes its row away.
    private static func bare(_ places: Places, _ count: Int) async throws -> Double {
        let server = try notes()
        defer { server.stop() }
        let http = AsyncHTTPClientTransport()
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = NORMAL") }
        let database = try DatabasePool(path: places.next(), configuration: configuration)
        try await database.write { db in
            try db.execute(sql: "CREATE TABLE waiting (number INTEGER PRIMARY KEY, id TEXT NOT NULL, text TEXT)")
            let insert = try db.cachedStatement(sql: "INSERT INTO waiting (number, id, text) VALUES (?, ?, ?)")
            for number in 0..<count { try insert.execute(arguments: [number, id(number), text]) }
        }
        let clock = ContinuousClock()
        let start = clock.now
        for number in 0..<count {
            let body = Array(#"{"id":"\#(id(number))","text":"\#(text)","votes":1}"#.utf8)
            var request = HTTPRequest(
                method: .post, scheme: "http", authority: "127.0.0.1:\(server.port)", path: "/1/notes")
            // The same header fields as the queue's requests have: the server asks for them, and reads them.
            request.headerFields[.accept] = "application/json, application/problem+json"
            request.headerFields[.contentType] = "application/json"
            request.headerFields[key] = "\"\(id(number))\""
            request.headerFields[device] = id(0)
            request.headerFields[.contentLength] = "\(body.count)"
            request.headerFields[.acceptEncoding] = "gzip"
            request.headerFields[requestID] = id(number)
            let answer = try await http.send(request, body: body)
            var bytes = 0
            while let piece = try await answer.body.next() { bytes += piece.count }
            precondition(answer.head.status.code == 201 && bytes > 0)
            try commit(database, number)
        }
        let seconds = (clock.now - start) / .seconds(1)
        await http.close()
        try database.close()
        return seconds
    }

    private static let key = HTTPField.Name("Idempotency-Key")!
    private static let device = HTTPField.Name("Sync-Device")!
    private static let requestID = HTTPField.Name("X-Request-ID")!

    private static func commit(_ database: DatabasePool, _ number: Int) throws {
        try database.write { db in
            try db.cachedStatement(sql: "DELETE FROM waiting WHERE number = ?").execute(arguments: [number])
        }
    }

    // MARK: The queue

    private struct Drain {
        var seconds: Double
        /// How far the resident memory rose, in MB.
        var rise: Double
    }

    /// `run`, one request a change. Like the bare loop it is not watched on the way.
    private static func single(_ places: Places, _ count: Int) async throws -> Drain {
        let asked = Countdown(count)
        let server = try notes { asked.take() }
        defer { server.stop() }
        let store = try await store(places.next(), count)
        let queue = UploadQueue(log: store, home: store)
        let sender = try RESTSender(
            endpoint: server.url, mappings: ["note": RESTMapping(collection: "notes")],
            http: AsyncHTTPClientTransport(), logger: quiet)
        let clock = ContinuousClock()
        let start = clock.now
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: sender, gate: Open()) }
            await asked.wait()
            // The last answer is there; what is left is to record it.
            for await now in queue.counts() where now.waiting + now.inFlight == 0 { break }
            group.cancelAll()
        }
        let seconds = (clock.now - start) / .seconds(1)
        let end = try await store.summary()
        precondition(end == QueueSummary())
        await sender.close()
        try await store.close()
        return Drain(seconds: seconds, rise: asked.rise)
    }

    /// `take` and `settle`, 500 changes a request.
    private static func batch(_ places: Places, _ count: Int) async throws -> Drain {
        let asked = Asked()
        let server = try InstantServer { _ in asked.answer() }
        defer { server.stop() }
        let store = try await store(places.next(), count)
        let queue = UploadQueue(
            log: store, home: store, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 500)))
        let exchange = try BatchExchange(
            endpoint: server.url, http: AsyncHTTPClientTransport(), logger: quiet)
        var memory = ResidentMemory()
        let clock = ContinuousClock()
        let start = clock.now
        var take = try await queue.take(urgency: .routine)
        var number = 0
        while case .batch(let claim) = take {
            number += 1
            let request = ExchangeRequest(
                cycleID: "cycle-\(number)", deviceID: claim.deviceID, settled: claim.settled,
                changes: claim.changes.map(\.change))
            asked.expect(request)
            let answer = try await exchange.exchange(request)
            take = try await queue.settle(
                claim, results: answer.results, stamp: answer.stamp, backoffSeconds: nil, urgency: .routine)
            memory.sample()
        }
        let seconds = (clock.now - start) / .seconds(1)
        precondition(number == count / 500)
        let end = try await store.summary()
        precondition(end == QueueSummary())
        await exchange.close()
        try await store.close()
        return Drain(seconds: seconds, rise: memory.rise)
    }

    // MARK: What the servers say

    /// The record's id comes first in the body, as the client writes it.
    private static func notes(_ asked: @escaping @Sendable () -> Void = {}) throws -> InstantServer {
        try InstantServer { body in
            asked()
            let quote = UInt8(ascii: "\"")
            let name = Array(#""id":""#.utf8)
            guard let start = body.indices.first(where: { body[$0...].starts(with: name) }),
                let end = body[(start + name.count)...].firstIndex(of: quote)
            else { return InstantServer.json(400, Array("{}".utf8)) }
            let id = String(decoding: body[(start + name.count)..<end], as: UTF8.self)
            return InstantServer.json(201, Array(#"{"id":"\#(id)","version":7}"#.utf8))
        }
    }

    /// Counts the requests down on the server's thread, and looks at the memory now and then.
    private final class Countdown: @unchecked Sendable {
        // Sendable: everything that changes is read and written under `lock` alone.
        private let lock = NSLock()
        private var left: Int
        private var memory = ResidentMemory()
        private var waiter: CheckedContinuation<Void, Never>?

        init(_ count: Int) { left = count }

        var rise: Double { lock.withLock { memory.rise } }

        func take() {
            let waiter = lock.withLock {
                left -= 1
                memory.sample()
                return left == 0 ? self.waiter : nil
            }
            waiter?.resume()
        }

        /// Until the last request has come.
        func wait() async {
            await withCheckedContinuation { continuation in
                let isOver = lock.withLock {
                    if left > 0 { waiter = continuation }
                    return left <= 0
                }
                if isOver { continuation.resume() }
            }
        }
    }

    /// What the next request asks: the server reads nothing of its body, and has its answer at once.
    private final class Asked: @unchecked Sendable {
        // Sendable: `next` is read and written under `lock` alone.
        private let lock = NSLock()
        private var next: [UInt8] = []
        private var version = 0

        func expect(_ request: ExchangeRequest) {
            let results = request.changes.map { change -> String in
                version += 1
                return #"{"changeID":"\#(change.id)","verdict":"applied","version":\#(version)}"#
            }
            let answer = #"""
                {"protocol":1,"cycleID":"\#(request.cycleID)","epoch":"e-1","currentSyncVersion":0,"hasMore":false,\#
                "count":0,"results":[\#(results.joined(separator: ","))],"changedRecords":[]}
                """#
            lock.withLock { next = InstantServer.json(200, Array(answer.utf8)) }
        }

        func answer() -> [UInt8] { lock.withLock { next } }
    }
}

/// How far this process's resident memory has risen since this was made.
private struct ResidentMemory {
    private let start = ResidentMemory.now
    private var most = 0
    private var looks = 0

    var rise: Double { Double(max(0, most - start)) / 1e6 }

    mutating func sample() {
        looks += 1
        if looks.isMultiple(of: 20) { most = max(most, Self.now) }
    }

    private static var now: Int {
        #if canImport(Darwin)
            var usage = rusage()
            getrusage(RUSAGE_SELF, &usage)
            return usage.ru_maxrss
        #else
            let pages = FileManager.default.contents(atPath: "/proc/self/statm") ?? Data()
            let words = String(decoding: pages, as: UTF8.self).split(separator: " ")
            guard words.count > 1, let resident = Int(words[1]) else { preconditionFailure("no /proc/self/statm") }
            return resident * sysconf(Int32(_SC_PAGESIZE))
        #endif
    }
}
