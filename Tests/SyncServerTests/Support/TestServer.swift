import Foundation
import SyncCore
import Testing

@testable import SyncServer

/// A clock that stands until it is moved.
final class TestClock: WallClock, @unchecked Sendable {
    // Each test has its own and uses it from one thread at a time; the lock makes the hostile ones safe.
    private let lock = NSLock()
    private var now: Int64 = 1_763_700_000_000

    var nowMilliseconds: Int64 { lock.withLock { now } }

    func advance(by milliseconds: Int64) { lock.withLock { now += milliseconds } }
}

/// Chance from a seed.
final class TestRandomness: Randomness, @unchecked Sendable {
    // As the clock's.
    private let lock = NSLock()
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    func next() -> UInt64 {
        lock.withLock {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            return mixed ^ (mixed >> 31)
        }
    }
}

/// A service over a database in a folder of its own, which goes with it.
final class TestServer {
    static let entities = [
        ServerEntity("board", collection: "boards", tracksActivity: true),
        ServerEntity("list", collection: "lists", parents: [.init(field: "idBoard", entity: "board")]),
        ServerEntity("label", collection: "labels", parents: [.init(field: "idBoard", entity: "board")]),
        ServerEntity(
            "card", collection: "cards", parents: [.init(field: "idList", entity: "list")], tracksActivity: true,
            queryKinds: ["closed": .boolean, "pos": .number]),
        ServerEntity("checklist", collection: "checklists", parents: [.init(field: "idCard", entity: "card")]),
        ServerEntity(
            "checkItem", collection: "checkItems", parents: [.init(field: "idChecklist", entity: "checklist")]),
        ServerEntity("comment", collection: "comments", parents: [.init(field: "idCard", entity: "card")]),
    ]

    let folder: URL
    let clock = TestClock()
    let randomness: TestRandomness
    var configuration: ServerConfiguration
    private(set) var service: SyncService
    var account = "a"

    init(seed: UInt64 = 1, configure: (inout ServerConfiguration) -> Void = { _ in }) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("server-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        randomness = TestRandomness(seed: seed)
        configuration = ServerConfiguration(entities: Self.entities)
        configure(&configuration)
        service = try SyncService(
            path: folder.appendingPathComponent("data.sqlite").path, configuration: configuration, clock: clock,
            randomness: randomness)
    }

    deinit {
        do {
            try service.close()
            try FileManager.default.removeItem(at: folder)
        } catch {
            Issue.record("the test server left something behind: \(error)")
        }
    }

    var path: String { folder.appendingPathComponent("data.sqlite").path }

    /// The process ends and begins again.
    func restart(_ between: (TestServer) throws -> Void = { _ in }) throws {
        try service.close()
        try between(self)
        service = try SyncService(path: path, configuration: configuration, clock: clock, randomness: randomness)
    }

    /// A stamp of so many milliseconds from the clock's start.
    func stamp(_ offset: Int64, _ counter: UInt16 = 0) -> String {
        Stamp(milliseconds: UInt64(clock.nowMilliseconds + offset), counter: counter).description
    }

    // MARK: - Requests

    /// One request; its answer as a value, which must be 200.
    @discardableResult
    func sync(
        _ device: String = "dev-1", _ changes: [FieldValue] = [], from checkpoint: Int64 = 0,
        _ more: [String: FieldValue] = [:], sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> Answer {
        let reply = try send(device, changes, from: checkpoint, more)
        #expect(reply.status == 200, "\(String(decoding: reply.body, as: UTF8.self))", sourceLocation: sourceLocation)
        return try Answer(reply)
    }

    func send(
        _ device: String = "dev-1", _ changes: [FieldValue] = [], from checkpoint: Int64 = 0,
        _ more: [String: FieldValue] = [:]
    ) throws -> ServerReply {
        var request: [String: FieldValue] = [
            "protocol": 1, "cycleID": "cycle", "deviceID": .string(device), "lastSyncVersion": .int(checkpoint),
            "dirtyRecords": .array(changes),
        ]
        request.merge(more) { $1 }
        return service.sync(account: account, body: try FieldValue.object(request).json())
    }
}

/// An answer, taken apart.
struct Answer {
    let status: Int
    let value: FieldValue

    init(_ reply: ServerReply) throws {
        status = reply.status
        value = try FieldValue(json: reply.body)
    }

    subscript(name: String) -> FieldValue { value[name] }
    var version: Int64 { value["currentSyncVersion"].int ?? -1 }
    var results: [FieldValue] { value["results"].array }
    var records: [FieldValue] { value["changedRecords"].array }
    func result(_ id: String) -> FieldValue { results.first { $0["changeID"] == .string(id) } ?? .null }
    func verdict(_ id: String) -> String? { result(id)["verdict"].string }
    func record(_ id: String) -> FieldValue? { records.first { $0["id"] == .string(id) } }
}

extension FieldValue {
    subscript(name: String) -> FieldValue {
        if case .object(let members) = self { members[name] ?? .null } else { .null }
    }
    var int: Int64? { if case .int(let number) = self { number } else { nil } }
    var string: String? { if case .string(let text) = self { text } else { nil } }
    var array: [FieldValue] { if case .array(let elements) = self { elements } else { [] } }
    var bool: Bool { self == true }
}
