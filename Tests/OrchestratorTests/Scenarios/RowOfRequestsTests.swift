import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Testing
import UploadQueue

/// What must hold where one request follows another before the answer to the first is settled.
@Suite struct RowOfRequestsTests {
    /// What the file said when a request came to the exchange.
    private struct Seen: Sendable {
        var request: ExchangeRequest
        /// The states of the request's changes, by key; those that are no longer in the queue are missing.
        var states: [String: Int64]
        var checkpoint: Int64
        var boards: [String]

        var keys: [String] { request.changes.map(\.id) }
    }

    /// Looks into the device's file at each request, before it goes on.
    private final class Lookout: Exchange, @unchecked Sendable {
        // Sendable: `store` and `list` are used under `lock` alone.
        private let lock = NSLock()
        private var store: Store?
        private var list: [Seen] = []
        private var isNaming = false
        private let inner: any Exchange

        init(_ inner: any Exchange) { self.inner = inner }

        var seen: [Seen] { lock.withLock { list } }
        /// From now on every verdict names its record.
        func nameRecords() { lock.withLock { isNaming = true } }
        func watch(_ store: Store?) { lock.withLock { self.store = store } }

        func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
            do { try look(request) } catch { Issue.record(error) }
            var answer = try await inner.exchange(request)
            guard lock.withLock({ isNaming }) else { return answer }
            for (index, result) in answer.results.enumerated() {
                guard case .applied(let version, let overwrote, _) = result.verdict else { continue }
                let name = "server-\(result.changeID)"
                answer.results[index].verdict = .applied(version: version, overwrote: overwrote, serverID: name)
            }
            return answer
        }

        private func look(_ request: ExchangeRequest) throws {
            guard let store = lock.withLock({ store }) else { return }
            let now = try store.database.read { db in
                let rows = try Row.fetchAll(db, sql: "SELECT key, state FROM sync_change")
                let states = Dictionary(uniqueKeysWithValues: rows.map { ($0[0] as String, $0[1] as Int64) })
                let keys = Set(request.changes.map(\.id))
                return Seen(
                    request: request, states: states.filter { keys.contains($0.key) },
                    checkpoint: try Int64.fetchOne(db, sql: "SELECT value FROM sync_meta WHERE key = 'checkpoint'")
                        ?? 0,
                    boards: try String.fetchAll(db, sql: "SELECT id FROM board ORDER BY id"))
            }
            lock.withLock { list.append(now) }
        }

        func close() async {}
    }

    private struct World: Sendable {
        /// The real one: its pages leave out what follows from a request's own changes.
        var server: RealServer
        var port: Port
        var lookout: Lookout
        var device: Device

        /// How many changes had an effect there.
        func effects() throws -> Int64 { try server.service.currentVersion(account: "account") }

        /// The version of a board, as the device holds it.
        func version(_ id: String) throws -> Int64? {
            try device.store.database.read {
                try Int64.fetchOne($0, sql: "SELECT version FROM sync_record WHERE id = ?", arguments: [id])
            }
        }

        func end() async throws {
            try await device.end()
            try server.end()
        }
    }

    /// A device in step, whose requests carry two changes each, and which then writes `count` boards.
    private func world(_ stage: Stage, count: Int) async throws -> World {
        let server = try RealServer(stage)
        let port = Port(server.exchange, clock: stage.clock)
        let lookout = Lookout(port)
        let device = try stage.device(
            lookout, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 2), jitter: .full))
        _ = try await device.engine.sync(for: .seconds(10))
        port.forget()
        port.otherwise = .slow(.seconds(1))
        lookout.watch(device.store)
        for index in 0..<count { try await device.addBoard("b-\(index)") }
        return World(server: server, port: port, lookout: lookout, device: device)
    }

    private func states(_ device: Device) throws -> [Int64] {
        let sql = "SELECT state FROM sync_change ORDER BY position"
        return try device.store.database.read { try Int64.fetchAll($0, sql: sql) }
    }

    @Test("While a request is under way the next is claimed, and it leaves before the answer in front is settled")
    func overlap() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 7)
            let report = await world.device.engine.syncNow()
            #expect(report.end == .complete)
            #expect(report.requests == 4)
            #expect(report.acknowledged == 7)
            let seen = world.lookout.seen
            #expect(seen.map(\.keys.count) == [2, 2, 2, 1])
            // Before a byte of a change leaves, it is marked.
            for one in seen { #expect(one.keys.allSatisfy { one.states[$0] == 1 }, "\(one.states)") }
            // In the queue's order, one request at a time, and each change once.
            #expect(seen.flatMap { $0.request.changes.map(\.sequence) } == Array(1...7))
            #expect(world.port.mostAtOnce == 1)
            #expect(try world.effects() == 7)
            // Claimed before the answer in front was settled: what is told as decided for good is a request behind.
            #expect(seen.map { $0.request.settled } == [0, 0, 2, 4])
            #expect(try states(world.device).isEmpty)
            try await world.end()
        }
    }

    @Test("A change of a record that is under way waits for the verdict, and is sent over the version that it tells")
    func sameRecord() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 3)
            // The first of the second request is of a record of the first.
            try await world.device.write("UPDATE board SET name = 'A' WHERE id = 'b-1'")
            try await world.device.addBoard("b-9")
            #expect(await world.device.engine.syncNow().end == .complete)
            let seen = world.lookout.seen
            #expect(seen.map { $0.request.changes.map(\.record.id) } == [["b-0", "b-1"], ["b-2"], ["b-1", "b-9"]])
            #expect(seen.last?.request.changes.first?.baseVersion == 2)
            #expect(try world.version("b-1") == 4)
            try await world.end()
        }
    }

    @Test("IDS-01 after an answer that names records nothing leaves before the names are in the file")
    func names() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 5)
            world.lookout.nameRecords()
            #expect(await world.device.engine.syncNow().end == .complete)
            let seen = world.lookout.seen.filter { !$0.keys.isEmpty }
            #expect(seen.map(\.keys.count) == [2, 2, 1])
            #expect(seen.map { $0.request.settled } == [0, 2, 4])
            try await world.end()
        }
    }

    @Test("A request that fails leaves what was made ready behind it as if it had never been claimed")
    func failure() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 6)
            world.port.next(.slow(.seconds(1)), .hang(.seconds(1)))
            world.port.otherwise = .fail(.timedOut)
            #expect(await world.device.engine.syncNow().end != .complete)
            // Two are done, two were sent and have no answer, two never left.
            #expect(try states(world.device) == [2, 2, 0, 0])
            let sent = world.lookout.seen.map(\.keys)
            world.port.otherwise = .pass
            try await stage.pass(.seconds(60))
            #expect(try await world.device.engine.sync(for: .seconds(60)).isInStep)
            let again = world.lookout.seen.map(\.keys).dropFirst(sent.count).first { !$0.isEmpty }
            #expect(again.map { Array($0.prefix(2)) } == sent[1], "the same keys come first")
            #expect(try world.effects() == 6)
            try await world.end()
        }
    }

    @Test(
        "An answer that lacks verdicts, asks for a pause, or is cut off lets nothing go that stands behind it",
        arguments: [Port.Act.mute, .backoff(5), .fail(.portal)])
    func unusual(act: Port.Act) throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 6)
            world.port.next(act)
            world.port.otherwise = .fail(.timedOut)
            _ = await world.device.engine.syncNow()
            let pushed = world.lookout.seen.filter { !$0.keys.isEmpty }
            #expect(pushed.allSatisfy { $0.keys == pushed[0].keys }, "the second two must not have left")
            #expect(try states(world.device).suffix(4) == [0, 0, 0, 0])
            world.port.otherwise = .pass
            try await stage.pass(.seconds(60))
            #expect(try await world.device.engine.sync(for: .seconds(60)).isInStep)
            #expect(try world.effects() == 6)
            try await world.end()
        }
    }

    @Test("A page that comes with an answer is applied before a request says so")
    func page() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 8)
            let other = try stage.device(world.server.exchange, seed: 2)
            try await other.addBoard("x-1")
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { #expect(await world.device.engine.syncNow().end == .complete) }
                group.addTask {
                    try await stage.pass(.milliseconds(1_500))
                    _ = try await other.engine.sync(for: .seconds(10))
                }
                try await group.waitForAll()
            }
            let theirs = try #require(try world.version("x-1"))
            let seen = world.lookout.seen
            #expect(seen.contains { $0.request.lastSyncVersion >= theirs })
            for one in seen where one.request.lastSyncVersion >= theirs { #expect(one.boards.contains("x-1")) }
            #expect(try world.effects() == 9)
            #expect(try world.device.rows("board").count == 9)
            try await world.end()
            try await other.end()
        }
    }

    @Test("No request says a checkpoint that is further than what the answers before it brought")
    func checkpoints() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 7)
            #expect(await world.device.engine.syncNow().end == .complete)
            let seen = world.lookout.seen
            // Each says what the answer in front of it reached; the file may be that one answer behind.
            for (one, next) in zip(seen, seen.dropFirst()) {
                #expect(next.checkpoint >= one.request.lastSyncVersion)
                #expect(next.checkpoint <= next.request.lastSyncVersion)
                #expect(next.request.lastSyncVersion == one.request.lastSyncVersion + Int64(one.keys.count))
            }
            #expect(try await world.device.store.position().checkpoint == world.effects())
            try await world.end()
        }
    }

    @Test("PRC-04 a cycle that is given up between an answer and its settlement: the same keys again, one effect each")
    func givenUp() throws {
        try inVirtualTime { stage in
            let world = try await world(stage, count: 7)
            for seconds in [1.5, 0.5, 2.5] {
                let report = await world.device.engine.runOnce(deadline: .seconds(seconds * 1.25))
                #expect(report.end == .cancelled)
            }
            world.port.otherwise = .pass
            #expect(try await world.device.engine.sync(for: .seconds(60)).isInStep)
            #expect(try world.effects() == 7)
            #expect(Set(world.lookout.seen.flatMap(\.keys)).count == 7)
            try await world.end()
        }
    }
}
