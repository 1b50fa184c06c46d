import Foundation
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// What a handler is told of records that came, changed or went by somebody else's word, and what it refuses.
@Suite struct ToldHandlerTests {
    private func engine(
        _ stage: Stage, _ device: Device, _ exchange: any Exchange, _ handlers: [any Syncable], seed: UInt64 = 5
    ) -> SyncEngine {
        SyncEngine(
            store: device.store, exchange: exchange, handlers: handlers, wallClock: stage.wall, clock: stage.clock,
            randomness: SeededRandomness(seed: seed), ids: SeededIDs(seed: seed))
    }

    /// A device that wrote ten boards, and a server that has them.
    private func filled(_ stage: Stage, _ server: ModelServer) async throws -> Device {
        let other = try stage.device(server, seed: 2)
        for number in 0..<10 { try await other.addBoard("b-\(number)") }
        #expect(try await other.engine.sync(for: .seconds(10)).isInStep)
        return other
    }

    @Test("DL-09 a handler hears of a record that a full pass did not bring")
    func fullPass() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try await filled(stage, server)
            let backup = server.backup()
            try await other.addBoard("b-lost")
            _ = await other.engine.syncNow()
            let device = try stage.device(server)
            let listener = Listener("board")
            let engine = engine(stage, device, server, [listener])
            #expect(await engine.syncNow().end == .complete)
            #expect(listener.take().count == 11)
            server.restore(backup)
            #expect(try await engine.sync(for: .seconds(60)).isInStep)
            #expect(try device.rows("board").count == 10)
            #expect(listener.take().last { $0.hasSuffix("b-lost") } == "deleted b-lost")
            try await device.end()
            try await other.end()
        }
    }

    @Test("DL-21 a handler hears of what leaves with a root that is dropped, in the next cycle")
    func eviction() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try await filled(stage, server)
            try await other.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'L', 'b-1')")
            #expect(try await other.engine.sync(for: .seconds(10)).isInStep)
            let device = try stage.device(server)
            let (boards, lists) = (Listener("board"), Listener("list"))
            let engine = engine(stage, device, server, [boards, lists])
            let (kept, dropped) = (RecordKey("board", "b-0"), RecordKey("board", "b-1"))
            try await engine.setScopes([kept, dropped])
            #expect(await engine.syncNow().end == .complete)
            #expect(Set(boards.take()) == ["live b-0", "live b-1"])
            #expect(lists.take() == ["live l-1"])
            try await engine.setScopes([kept])
            #expect(await engine.syncNow().end == .complete)
            #expect(boards.take() == ["gone b-1"])
            #expect(lists.take() == ["gone l-1"])
            // Once only.
            #expect(await engine.syncNow().end == .complete)
            #expect(boards.take().isEmpty && lists.take().isEmpty)
            try await device.end()
            try await other.end()
        }
    }

    @Test("PRC-23 what a handler refused is offered again in the next cycles, also after the program was ended")
    func refused() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try await filled(stage, server)
            let device = try stage.device(server)
            let listener = Listener("board")
            listener.refuse(["b-3", "b-7"])
            let before = engine(stage, device, server, [listener])
            #expect(await before.syncNow().end == .complete)
            #expect(listener.take().count == 8)
            #expect(await before.syncNow().end == .complete)
            #expect(listener.take().isEmpty)
            // The same record comes anew: what is told is the newest word alone.
            try await other.write("UPDATE board SET name = 'New' WHERE id = 'b-3'")
            _ = await other.engine.syncNow()
            listener.refuse([])
            let after = engine(stage, device, server, [listener], seed: 6)
            #expect(await after.syncNow().end == .complete)
            #expect(listener.take() == ["live b-3", "live b-7", "live b-3"])
            #expect(await after.syncNow().end == .complete)
            #expect(listener.take().isEmpty)
            #expect(try await device.store.lastUntold() == 0)
            try await device.end()
            try await other.end()
        }
    }

    @Test("PRC-23 more than is offered in one cycle is offered in the next ones, though the first are refused again")
    func manyRefused() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try stage.device(server, seed: 2)
            for number in 100..<350 { try await other.addBoard("b-\(number)") }
            #expect(try await other.engine.sync(for: .seconds(10)).isInStep)
            let device = try stage.device(server)
            let listener = Listener("board")
            let all = Set((100..<350).map { "b-\($0)" })
            listener.refuse(all)
            let engine = engine(stage, device, server, [listener])
            #expect(await engine.syncNow().end == .complete)
            listener.refuse(Set(all.sorted().prefix(200)))
            for _ in 0..<3 { _ = await engine.syncNow() }
            #expect(Set(listener.take()).count == 50)
            try await device.end()
            try await other.end()
        }
    }

    @Test("PRC-02 what stands, and was not told before the program was killed, is told by the next one")
    func killed() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try await filled(stage, server)
            let device = try stage.device(server)
            let (slow, listener) = (Hanging(clock: stage.clock), Listener("board"))
            let before = engine(stage, device, server, [slow])
            #expect(await before.runOnce(deadline: .seconds(30)).end == .cancelled)
            #expect(try device.rows("board").count == 10)
            #expect(await engine(stage, device, server, [listener], seed: 6).syncNow().end == .complete)
            #expect(listener.take().count == 10)
            try await device.end()
            try await other.end()
        }
    }

    @Test("A handler hears of the record that a verdict brought, though no page does")
    func verdict() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try await filled(stage, server)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            let listener = Listener("board")
            let engine = engine(stage, device, port, [listener])
            _ = await engine.syncNow()
            _ = listener.take()
            // Written first, and sent last.
            try await device.write("UPDATE board SET name = 'mine' WHERE id = 'b-1'")
            try await stage.pass(.seconds(5))
            try await other.write("UPDATE board SET name = 'theirs' WHERE id = 'b-1'")
            _ = await other.engine.syncNow()
            port.next(.pageless, .fail(.timedOut))
            #expect(await engine.syncNow().merged == 1)
            #expect(listener.take() == ["live b-1"])
            #expect(listener.names["b-1"] == "theirs")
            try await device.end()
            try await other.end()
        }
    }

    @Test("SEC-11 what is kept to be told goes with the account")
    func signedOut() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try await filled(stage, server)
            let device = try stage.device(server)
            let listener = Listener("board")
            listener.refuse(["b-3"])
            _ = await engine(stage, device, server, [listener]).syncNow()
            #expect(try await device.store.lastUntold() > 0)
            try await device.store.wipe()
            #expect(try await device.store.lastUntold() == 0)
            try await device.end()
            try await other.end()
        }
    }
}

/// Notes what it is told, and refuses what it is said to.
private final class Listener: Syncable, @unchecked Sendable {
    // Sendable: all that changes is used under `lock` alone.
    let schema: EntitySchema
    private let lock = NSLock()
    private var told: [String] = []
    private var refused: Set<String> = []
    private var values: [String: FieldValue] = [:]

    struct Refused: Error {}

    init(_ entity: String) { schema = Device.parsed[entity] ?? EntitySchema(entity, fields: []) }

    func refuse(_ ids: Set<String>) { lock.withLock { refused = ids } }
    var names: [String: FieldValue] { lock.withLock { values } }
    func take() -> [String] {
        lock.withLock {
            defer { told = [] }
            return told
        }
    }

    func applyResponse(_ record: ServerRecord) async throws {
        try lock.withLock {
            if refused.contains(record.key.id) { throw Refused() }
            told.append("\(record.presence) \(record.key.id)")
            values[record.key.id] = record.fields["name"]
        }
    }
}

/// Never comes back by itself.
private struct Hanging: Syncable {
    let schema = Device.parsed["board"] ?? EntitySchema("board", fields: [])
    let clock: VirtualClock
    func applyResponse(_ record: ServerRecord) async throws { try await clock.sleep(for: .seconds(3_600)) }
}
