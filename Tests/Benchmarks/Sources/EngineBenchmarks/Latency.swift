import Foundation
import GRDB
import HTTPTypes
import Measuring
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Transport
import UploadQueue

/// 100 changes over a slow line: all by one request, and one request each, in virtual time.
///
/// Every round trip costs the latency and nothing else: connections are open, nobody computes. Seconds are the line's.
enum Latency {
    private static let count = 100

    static func run(_ parent: URL) async throws -> [Figure] {
        var figures: [Figure] = []
        for milliseconds in [200, 800] { figures += try both(parent, milliseconds) }
        return figures
    }

    /// What one way of carrying came to.
    private struct Carried: Sendable {
        var push = (trips: 0, seconds: 0.0)
        var pull = (trips: 0, seconds: 0.0)
    }

    private static func both(_ parent: URL, _ milliseconds: Int) throws -> [Figure] {
        let together = try virtually(parent, milliseconds, oneByOne)
        let batch = try virtually(parent, milliseconds, allAtOnce)
        return [("push", batch.push, together.push), ("pull", batch.pull, together.pull)].map { name, value, bare in
            Figure(
                name: "latency-\(name)-\(milliseconds)",
                what:
                    "\(count) changes over a line of \(milliseconds) ms, \(name): \(value.trips) round trip by one request, "
                    + "bare: \(bare.trips) round trips by REST, one request each",
                value: value.seconds, unit: "s", bare: bare.seconds, goal: 0.02)
        }
    }

    // MARK: The two ways

    /// A device in step pushes 100 new cards; another one pulls them.
    private static func allAtOnce(_ line: Line) async throws -> Carried {
        var carried = Carried()
        let (a, b) = (try line.device(1), try line.device(2))
        let engines = try [a, b].enumerated().map { try line.engine($1, seed: UInt64($0 + 1)) }
        // So long that it would be sent compressed, which this server refuses: from then on all is plain.
        try await a.write { db in
            try db.execute(
                sql: "INSERT INTO board (id, name) VALUES ('b-1', ?)", arguments: [String(repeating: "x", count: 2_000)]
            )
        }
        for engine in engines { _ = try await engine.sync(for: .seconds(60)) }
        try await write(a)
        carried.push = try await line.measure { _ = await engines[0].syncNow() }
        carried.pull = try await line.measure { _ = await engines[1].syncNow() }
        let cards = try b.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM card") ?? 0 }
        guard cards == count else { throw IdleCycle.Unexpected(text: "\(cards) cards came") }
        for device in [a, b] { try await device.close() }
        return carried
    }

    /// The same by REST: each card a `POST`, each record a `GET`.
    private static func oneByOne(_ line: Line) async throws -> Carried {
        var carried = Carried()
        let device = try line.device(1)
        let sender = try RESTSender(
            endpoint: "https://line.invalid",
            mappings: ["board": RESTMapping(collection: "boards"), "card": RESTMapping(collection: "cards")],
            http: line.http, clock: line.executor.clock, wallClock: line.wall, ids: SeededIDs(seed: 3))
        let queue = UploadQueue(log: device.store, wallClock: line.wall, clock: line.executor.clock)
        try await device.write { db in try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b-1', 'x')") }
        try await drain(queue, sender, device, line)
        try await write(device)
        let ids = try device.read { try String.fetchAll($0, sql: "SELECT id FROM card ORDER BY id") }
        carried.push = try await line.measure { try await drain(queue, sender, device, line) }
        carried.pull = try await line.measure {
            for id in ids {
                let answer = try await line.http.send(
                    .init(method: .get, scheme: "https", authority: "line.invalid", path: "/1/cards/\(id)"), body: [])
                guard answer.head.status == .ok else { throw IdleCycle.Unexpected(text: "\(answer.head.status)") }
            }
        }
        try await device.close()
        return carried
    }

    /// Sends until the queue is empty.
    private static func drain(
        _ queue: UploadQueue, _ sender: RESTSender, _ device: LineDevice, _ line: Line
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: sender, gate: OpenGate()) }
            while try await device.store.summary().hasWork {
                try await line.executor.clock.sleep(for: .milliseconds(1))
            }
            group.cancelAll()
        }
    }

    private static func write(_ device: LineDevice) async throws {
        try await device.write { db in
            for number in 0..<count {
                try db.execute(
                    sql: "INSERT INTO card (id, idBoard, name, desc, pos) VALUES (?, 'b-1', ?, ?, ?)",
                    arguments: ["c-\(number)", "Card \(number)", "Something to be done about it", Double(number)])
            }
        }
    }

    private struct OpenGate: Gate { func mayGo(_ urgency: Urgency) async -> GateAnswer { .open } }

    /// Runs in virtual time, on a server of its own.
    private static func virtually(
        _ parent: URL, _ milliseconds: Int, _ body: @escaping @Sendable (Line) async throws -> Carried
    ) throws -> Carried {
        let line = try Line(parent, milliseconds)
        let carried = try line.executor.complete { try await body(line) }
        try line.end()
        return carried
    }
}

/// A store on the executor that drives virtual time.
private struct LineDevice: Sendable {
    let store: Store

    func write(_ work: @Sendable (Database) throws -> Void) async throws { try await store.write(work) }
    /// In virtual time nothing may run on a thread of the pool's own.
    func read<T>(_ work: (Database) throws -> T) throws -> T { try store.database.read(work) }
    func close() async throws { try await store.close() }
}

/// A server at the end of a line with a latency, and virtual time.
private struct Line: Sendable {
    let executor: SeededExecutor
    let wall: ManualWallClock
    let http: LineHTTP
    private let service: SyncService
    private let folder: URL

    init(_ parent: URL, _ milliseconds: Int) throws {
        executor = SeededExecutor(seed: 1)
        wall = ManualWallClock(following: executor.clock)
        folder = try Lab.folder(in: parent)
        service = try Lab.service(folder, clock: wall)
        http = LineHTTP(service, latency: .milliseconds(milliseconds), clock: executor.clock)
    }

    func end() throws { try service.close() }

    func device(_ seed: UInt64) throws -> LineDevice {
        var configuration = StoreConfiguration()
        configuration.clock = wall
        configuration.monotonicClock = executor.clock
        configuration.fixesTriggerClock = true
        configuration.keySeed = Int64(seed)
        configuration.executor = executor.lane("store \(seed)")
        return LineDevice(
            store: try Store(
                path: folder.appending(path: "\(seed).sqlite").path, schema: try Lab.schema(),
                configuration: configuration))
    }

    func engine(_ device: LineDevice, seed: UInt64) throws -> SyncEngine {
        let exchange = try BatchExchange(
            endpoint: "https://line.invalid", http: http, clock: executor.clock, wallClock: wall,
            ids: SeededIDs(seed: seed))
        return SyncEngine(
            store: device.store, exchange: exchange, wallClock: wall, clock: executor.clock,
            randomness: SeededRandomness(seed: seed), ids: SeededIDs(seed: seed + 10))
    }

    func measure(_ work: () async throws -> Void) async throws -> (trips: Int, seconds: Double) {
        _ = http.trips()
        let began = executor.clock.now
        try await work()
        let took = began.duration(to: executor.clock.now)
        return (http.trips(), Double(took.components.seconds) + Double(took.components.attoseconds) * 1e-18)
    }
}
