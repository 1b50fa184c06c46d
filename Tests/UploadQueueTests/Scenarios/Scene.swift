import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

/// The logs on which every scenario must hold.
enum LogKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case memory, sqlite
    var testDescription: String { rawValue }
}

/// What becomes of a request on its way.
enum Luck {
    case works
    /// It never reaches the server.
    case lostRequest
    /// The server has done its work, and nobody hears of it.
    case lostAnswer
    /// It is answered by something that is no verdict; the server does nothing.
    case fails(ExchangeFailure)
}

/// A device and a server for one scenario: a log of either kind, its queue on virtual time, and the model server.
final class Scene {
    static let entities = [
        EntitySchema("board", fields: [.text("name"), .text("desc"), .integer("count", rule: .sum)]),
        EntitySchema("card", fields: [.parent("idBoard", "board"), .text("name")]),
    ]

    let kind: LogKind
    let clock = VirtualClock()
    let wall: ManualWallClock
    let policy: UploadPolicy
    let server: ModelServer
    /// What left this device, request by request.
    private(set) var sent: [[Change]] = []
    private(set) var log: any ChangeLog & ChangeRepair
    private(set) var queue: UploadQueue
    private var memory: InMemoryChangeLog?
    private var store: Store?
    private let folder: URL?
    private var randomness: SeededRandomness

    init(_ kind: LogKind, policy: UploadPolicy = UploadPolicy(jitter: .added(upTo: .zero)), seed: UInt64 = 1) throws {
        self.kind = kind
        self.policy = policy
        let schema = try Schema(Self.entities)
        wall = ManualWallClock(following: clock)
        server = ModelServer(schema: schema, clock: wall)
        randomness = SeededRandomness(seed: seed)
        switch kind {
        case .memory:
            let memory = InMemoryChangeLog(schema: schema, wallClock: wall, ids: SeededIDs(seed: seed))
            (self.memory, log, folder) = (memory, memory, nil)
        case .sqlite:
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("upload-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let store = try Self.open(folder, schema, wall)
            (self.store, log, self.folder) = (store, store, folder)
        }
        queue = UploadQueue(
            log: log, home: store, policy: policy, wallClock: wall, clock: clock, randomness: randomness)
    }

    deinit {
        guard let folder else { return }
        do { try FileManager.default.removeItem(at: folder) } catch { Issue.record(error) }
    }

    private static func open(_ folder: URL, _ schema: Schema, _ wall: ManualWallClock) throws -> Store {
        try Store(
            path: folder.appendingPathComponent("scene.sqlite").path, schema: schema,
            configuration: StoreConfiguration(clock: wall, keySeed: 5, fixesTriggerClock: true))
    }

    /// The next process: what is durable is all that is left.
    /// - Parameter entities: what the next version of the app declares; the in-memory log has no second version.
    func restart(entities: [EntitySchema] = Scene.entities) async throws {
        if let memory { await memory.crash() }
        if let folder {
            try await store?.close()
            let next = try Self.open(folder, Schema(entities), wall)
            (store, log) = (next, next)
        }
        queue = UploadQueue(
            log: log, home: store, policy: policy, wallClock: wall, clock: clock, randomness: randomness)
    }

    // MARK: The app

    /// Writes as an app does, in one transaction.
    func write(_ writes: LocalWrite..., isUnit: Bool = false) async throws { try await write(writes, isUnit: isUnit) }

    func write(_ writes: [LocalWrite], isUnit: Bool = false) async throws {
        if let memory { return try await memory.subject().write(writes, isUnit) }
        try await store?.write(unit: isUnit) { db in for write in writes { try Self.perform(write, db) } }
    }

    private static func perform(_ write: LocalWrite, _ db: Database) throws {
        let values = write.values.sorted { $0.key < $1.key }
        let (table, id) = (write.record.entity, write.record.id)
        switch write.operation {
        case .create:
            let names = ["id"] + values.map(\.key)
            let marks = names.map { _ in "?" }.joined(separator: ", ")
            try db.execute(
                sql: "INSERT INTO \(table) (\(names.joined(separator: ", "))) VALUES (\(marks))",
                arguments: StatementArguments([id.databaseValue] + values.map { Self.databaseValue($0.value) }))
        case .update:
            let sets = values.map { "\($0.key) = ?" }.joined(separator: ", ")
            try db.execute(
                sql: "UPDATE \(table) SET \(sets) WHERE id = ?",
                arguments: StatementArguments(values.map { Self.databaseValue($0.value) } + [id.databaseValue]))
        case .delete:
            try db.execute(sql: "DELETE FROM \(table) WHERE id = ?", arguments: [id])
        }
    }

    private static func databaseValue(_ value: FieldValue) -> DatabaseValue {
        switch value {
        case .string(let text): text.databaseValue
        case .int(let number): number.databaseValue
        default: .null
        }
    }

    /// So many boards in one transaction, each a chain of its own.
    func boards(_ count: Int) async throws {
        try await write((0..<count).map { .board("b\($0)") })
    }

    /// A board's name as the app sees it; `nil` for no row. Only SQLite has rows.
    func shownName(_ id: String) async throws -> String? {
        guard let store else { return nil }
        return try await store.database.read { db in
            try String.fetchOne(db, sql: "SELECT name FROM board WHERE id = ?", arguments: [id])
        }
    }

    // MARK: The network

    func advance(seconds: Double) { clock.advance(by: .milliseconds(Int64(seconds * 1_000))) }

    func batch(_ urgency: Urgency = .user) async throws -> Claim {
        try #require(try await queue.take(urgency: urgency).batch)
    }

    /// Sends a claim, with this luck, and settles what came of it.
    @discardableResult
    func send(_ claim: Claim, _ luck: Luck = .works) async throws -> Take {
        sent.append(claim.changes.map(\.change))
        switch luck {
        case .works:
            let results = try server.answer(request(claim)).results
            return try await queue.settle(claim, results: results, stamp: nil, backoffSeconds: nil, urgency: .routine)
        case .lostRequest:
            return try await queue.settle(claim, failure: .offline, urgency: .routine)
        case .lostAnswer:
            _ = try server.answer(request(claim))
            return try await queue.settle(claim, failure: .timeout, urgency: .routine)
        case .fails(let failure):
            return try await queue.settle(claim, failure: failure, urgency: .routine)
        }
    }

    func request(_ claim: Claim) -> ExchangeRequest {
        ExchangeRequest(
            cycleID: "cycle-\(sent.count)", deviceID: claim.deviceID, settled: claim.settled, limit: 1,
            isStrict: false, changes: claim.changes.map(\.change))
    }

    /// Takes and sends until nothing may go; a wait is waited for.
    func drain(_ luck: (Int) -> Luck = { _ in .works }) async throws {
        for round in 0..<20_000 {
            switch try await queue.take(urgency: .routine) {
            case .batch(let claim): try await send(claim, luck(round))
            case .wait(let until, _, _): clock.advance(by: .milliseconds(max(1, until - wall.nowMilliseconds)))
            case .nothing, .needsCredentials: return
            }
        }
        Issue.record("the queue does not come to an end")
    }

    // MARK: What came of it

    var serverNames: [String: FieldValue?] {
        Dictionary(uniqueKeysWithValues: server.liveRecords.map { ($0.key.description, $0.fields["name"]) })
    }

    /// The keys of everything that waits, in order.
    func keys() async throws -> [String] { try await log.queued().map(\.change.id) }

    func states() async throws -> [QueuedChange.State] { try await log.queued().map(\.state) }

    /// Nothing waits, nothing was set aside, and nobody sleeps.
    func expectNothingLeft(_ location: SourceLocation = #_sourceLocation) async throws {
        let (queued, failures) = (try await log.queued(), try await log.failures())
        #expect(queued.isEmpty && failures.isEmpty && clock.sleeperCount == 0, sourceLocation: location)
    }
}

extension LocalWrite {
    static func board(_ id: String, name: String? = nil) -> LocalWrite {
        LocalWrite(.create, RecordKey("board", id), ["name": .string(name ?? id)])
    }
    static func card(_ id: String, on board: String) -> LocalWrite {
        LocalWrite(.create, RecordKey("card", id), ["idBoard": .string(board), "name": .string(id)])
    }
    static func rename(_ id: String, to name: String) -> LocalWrite {
        LocalWrite(.update, RecordKey("board", id), ["name": .string(name)])
    }
    static func delete(_ id: String) -> LocalWrite { LocalWrite(.delete, RecordKey("board", id)) }
}

extension ModelServer {
    /// Refuses the changes that match, until told otherwise.
    func refuse(_ code: Rejection.Code = .invalid, where matches: @escaping @Sendable (Change) -> Bool) {
        ruling = { matches($0) ? .reject(Rejection(code: code, message: "no")) : .decide }
    }

    func refuseNothing() { ruling = { _ in .decide } }

    /// What was done, in the order in which it was: `create board b1`.
    var deeds: [String] {
        effects.filter { if case .rejected = $0.verdict { false } else { true } }
            .map { "\($0.change.operation.rawValue) \($0.change.record)" }
    }
}
