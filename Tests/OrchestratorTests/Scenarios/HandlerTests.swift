import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// Notes that live in a dictionary, not in a table: what an odd entity of an app may be like.
private final class Shelf: Syncable, @unchecked Sendable {
    // Sendable: `notes`, `dirty`, `applied` and `isBroken` are used under `lock` alone.
    let schema: EntitySchema
    private let lock = NSLock()
    private var dirty: [String: String] = [:]
    private var applied: [String] = []
    private var decided: [String] = []
    private var isBroken: Bool

    init(_ entity: String, isBroken: Bool = false) {
        schema = Device.parsed[entity] ?? EntitySchema(entity, fields: [])
        self.isBroken = isBroken
    }

    struct Broken: Error {}

    func write(_ id: String, _ name: String) { lock.withLock { dirty[id] = name } }
    var seen: [String] { lock.withLock { applied } }
    var synced: [String] { lock.withLock { decided } }

    func collectDirty() async throws -> [FoundChange] {
        if lock.withLock({ isBroken }) { throw Broken() }
        return lock.withLock {
            dirty.sorted { $0.key < $1.key }.map { id, name in
                FoundChange(
                    record: RecordKey(schema.name, id), operation: .create,
                    fields: ["name": FieldDelta(old: nil, new: .string(name))])
            }
        }
    }

    func applyResponse(_ record: ServerRecord) async throws {
        if lock.withLock({ isBroken }) { throw Broken() }
        lock.withLock { applied.append(record.key.id) }
    }

    func markSynced(_ changes: [Change]) async throws {
        lock.withLock {
            for change in changes {
                dirty[change.record.id] = nil
                decided.append(change.record.id)
            }
        }
    }
}

@Suite struct HandlerTests {
    private func engine(_ stage: Stage, _ device: Device, _ exchange: any Exchange, _ handlers: [any Syncable])
        -> SyncEngine
    {
        SyncEngine(
            store: device.store, exchange: exchange, handlers: handlers, wallClock: stage.wall, clock: stage.clock,
            randomness: SeededRandomness(seed: 5), ids: SeededIDs(seed: 5))
    }

    @Test("What a handler finds goes out once, though it is found again and again; it hears when it was decided")
    func collected() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            let shelf = Shelf("board")
            let engine = engine(stage, device, port, [shelf])
            port.otherwise = .fail(.unreachable)
            shelf.write("n-1", "one")
            shelf.write("n-2", "two")
            for _ in 0..<3 { _ = await engine.syncNow() }
            #expect(try await device.store.summary().pending == 2)
            port.otherwise = .pass
            #expect(try await engine.sync(for: .seconds(30)).report.acknowledged == 2)
            #expect(shelf.synced == ["n-1", "n-2"])
            #expect(server.effects.count == 2)
            try await device.end()
        }
    }

    @Test("PRC-23 a handler that throws is reported, and stops neither the others nor the cycle")
    func throwing() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try stage.device(server, seed: 2)
            try await other.addBoard("theirs")
            _ = try await other.engine.sync(for: .seconds(10))
            let device = try stage.device(server)
            let (broken, sound) = (Shelf("list", isBroken: true), Shelf("board"))
            sound.write("n-1", "one")
            let engine = engine(stage, device, server, [broken, sound])
            let events = await engine.events()
            let report = try await engine.sync(for: .seconds(10)).report
            #expect(report.end == .complete)
            #expect(report.acknowledged == 1)
            #expect(sound.seen.contains("theirs"))
            var iterator = events.makeAsyncIterator()
            guard case .handlerFailed(let entity, _)? = await iterator.next() else {
                Issue.record("nothing was reported")
                return
            }
            #expect(entity == "list")
            try await device.end()
            try await other.end()
        }
    }

    @Test("SCH-11 a handler that is cut off while it looks has not failed: it is asked again in the next cycle")
    func cutOff() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let device = try stage.device(server)
            let engine = engine(stage, device, server, [Slow(clock: stage.clock)])
            let events = await engine.events()
            #expect(await engine.runOnce(deadline: .seconds(5)).end == .cancelled)
            #expect(await engine.runOnce(deadline: .seconds(60)).end == .complete)
            var ends = 0
            for await event in events {
                if case .handlerFailed = event { Issue.record("nothing has failed") }
                if case .cycleEnded = event { ends += 1 }
                if ends == 2 { break }
            }
            #expect(server.effects.map(\.change.record.id) == ["l-1"])
            try await device.end()
        }
    }

    @Test("PRC-23 a handler that blocks for a minute holds no lock: reads and writes, of another process too, go on")
    func blocking() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let theirs = try stage.device(server, seed: 2)
            try await theirs.addBoard("theirs")
            _ = try await theirs.engine.sync(for: .seconds(10))
            let device = try stage.device(server)
            let second = try stage.secondStore(of: device)
            let handler = Blocked(clock: stage.clock)
            let engine = engine(stage, device, server, [handler])
            let began = stage.seconds
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { #expect(await engine.syncNow().end == .complete) }
                try await stage.pass(.seconds(20))
                #expect(handler.isAtWork)
                let before = stage.seconds
                try await device.addBoard("mine")
                try await device.store.write { try $0.execute(sql: "UPDATE board SET name = 'X' WHERE id = 'theirs'") }
                #expect(try await device.store.summary().pending == 2)
                #expect(try await device.store.position().checkpoint > 0)
                #expect(try device.rows("board").count == 2)
                try await second.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('second', 'S')") }
                #expect(try await second.summary().pending == 3)
                _ = try await device.store.unsent()
                #expect(stage.seconds == before && handler.isAtWork)
                try await group.waitForAll()
            }
            #expect(stage.seconds - began >= 60)
            #expect(try await engine.sync(for: .seconds(300)).report.end == .complete)
            #expect(try await device.store.summary().hasWork == false)
            #expect(server.effects.count == 4)
            try await second.close()
            try await device.end()
            try await theirs.end()
        }
    }

    @Test(
        "A handler for an entity that is not declared, and a second one for an entity, are refused when the engine starts"
    )
    func misplaced() async throws {
        let device = try Device(ModelServer(schema: Device.parsed, clock: ManualWallClock()))
        let stray = SyncEngine(store: device.store, exchange: ScriptedExchange(), handlers: [Shelf("note")])
        await #expect(throws: EngineError.unknownEntity(handler: "note")) { try await stray.run() }
        let twice = SyncEngine(
            store: device.store, exchange: ScriptedExchange(), handlers: [Shelf("board"), Shelf("board")])
        await #expect(throws: EngineError.secondHandler(entity: "board")) { try await twice.run() }
        #expect(EngineError.unknownEntity(handler: "note").description.contains("add its EntitySchema"))
        #expect(EngineError.secondHandler(entity: "board").description.contains("make one of them"))
        try await device.end()
    }

    @Test("A value without a form on the wire is that handler's mistake: nothing of it is taken, the rest goes on")
    func unfit() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let device = try stage.device(server)
            let (unfit, sound) = (Unfit(), Shelf("board"))
            sound.write("n-1", "one")
            let engine = engine(stage, device, server, [unfit, sound])
            #expect(try await engine.sync(for: .seconds(10)).report.acknowledged == 1)
            #expect(server.effects.map(\.change.record.id) == ["n-1"])
            try await device.end()
        }
    }
}

private struct Unfit: Syncable {
    let schema = Device.parsed["list"] ?? EntitySchema("list", fields: [])
    func collectDirty() async throws -> [FoundChange] {
        [
            FoundChange(
                record: RecordKey("list", "l-1"), operation: .create,
                fields: ["name": FieldDelta(old: nil, new: .double(.nan))])
        ]
    }
}

/// Looks for half a minute before it says what it found.
private struct Slow: Syncable {
    let schema = Device.parsed["list"] ?? EntitySchema("list", fields: [])
    let clock: VirtualClock
    func collectDirty() async throws -> [FoundChange] {
        try await clock.sleep(for: .seconds(30))
        return [
            FoundChange(
                record: RecordKey("list", "l-1"), operation: .create,
                fields: ["name": FieldDelta(old: nil, new: "one")])
        ]
    }
}

/// Takes a minute over each record that came.
private final class Blocked: Syncable, @unchecked Sendable {
    // Sendable: `present` is used under `lock` alone.
    let schema = Device.parsed["board"] ?? EntitySchema("board", fields: [])
    private let clock: VirtualClock
    private let lock = NSLock()
    private var present = 0

    init(clock: VirtualClock) { self.clock = clock }

    var isAtWork: Bool { lock.withLock { present > 0 } }

    func applyResponse(_ record: ServerRecord) async throws {
        lock.withLock { present += 1 }
        defer { lock.withLock { present -= 1 } }
        try await clock.sleep(for: .seconds(60))
    }
}
