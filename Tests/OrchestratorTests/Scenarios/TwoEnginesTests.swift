import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

@Suite("Two engines over one file")
struct TwoEnginesTests {
    @Test("Two calls for a round at the same moment, of two engines too, make one")
    func oneRound() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let other = stage.anotherEngine(on: device, port)
            let ran = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<10 {
                    let engine = number % 2 == 0 ? device.engine : other
                    group.addTask {
                        if case .ran = try await engine.backgroundRound(deadline: .seconds(20)) { true } else { false }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(ran == 1)
            #expect(port.requests.count == 1)
            try await device.end()
        }
    }

    @Test("PRC-11 two engines on one file, both running: one request at a time, and each change goes once")
    func twoEngines() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            port.otherwise = .slow(.seconds(1))
            let device = try stage.device(port)
            let other = stage.anotherEngine(on: device, port)
            try await stage.running(device) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await other.run() }
                    for number in 0..<100 {
                        try await device.addBoard("b-\(number)")
                        try await stage.pass(.milliseconds(700))
                    }
                    try await stage.pass(.seconds(60))
                    await other.stop()
                    try await group.waitForAll()
                }
            }
            #expect(port.mostAtOnce == 1)
            #expect(server.effects.count == 100)
            #expect(port.requests.flatMap(\.changes).count == 100)
            #expect(try await device.store.summary().hasWork == false)
            try await device.end()
        }
    }

    @Test("PRC-11 two engines, each with a store of its own on one file: one request at a time, each change goes once")
    func twoStores() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            port.otherwise = .slow(.seconds(1))
            let device = try stage.device(port)
            let second = try stage.secondStore(of: device)
            let other = SyncEngine(
                store: second, exchange: port, wallClock: stage.wall, clock: stage.clock,
                randomness: SeededRandomness(seed: 9), ids: SeededIDs(seed: 9))
            try await stage.running(device) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await other.run() }
                    for number in 0..<100 {
                        try await device.addBoard("a-\(number)")
                        try await second.write {
                            try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b-\(number)', 'B')")
                        }
                        try await stage.pass(.milliseconds(700))
                    }
                    try await stage.pass(.seconds(60))
                    await other.stop()
                    try await group.waitForAll()
                }
            }
            #expect(port.mostAtOnce == 1)
            #expect(server.effects.count == 200)
            #expect(port.requests.flatMap(\.changes).count == 200)
            #expect(try await device.store.summary().hasWork == false)
            #expect(try await second.summary().hasWork == false)
            // Both of them had their turns.
            let holders = try device.store.read { db in
                try Int.fetchOne(db, sql: "SELECT generation FROM sync_lease") ?? 0
            }
            #expect(holders > 2)
            #expect(try await device.store.integrityProblems().isEmpty)
            try await second.close()
            try await device.end()
        }
    }
}
