import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

@Suite struct ComparisonScenarioTests {
    @Test("OBS-09 the server is not asked for its checksum while something unsent keeps contents from being compared")
    func unsent() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            let draft = RecordKey("board", "b-1")
            try await device.addBoard("b-1")
            try await device.store.hold([draft])
            port.forget()
            await device.engine.compareContents()
            for _ in 0..<3 { _ = await device.engine.syncNow() }
            try await stage.pass(.seconds(2 * 86_400))
            for _ in 0..<3 { _ = await device.engine.syncNow() }
            #expect(port.requests.count >= 6)
            #expect(port.requests.filter(\.request.wantsChecksum).isEmpty)
            try await device.store.release([draft])
            port.forget()
            for _ in 0..<4 { _ = await device.engine.syncNow() }
            #expect(port.requests.filter(\.request.wantsChecksum).count == 1)
            #expect(try await device.store.contentsComparedMilliseconds() == stage.wall.nowMilliseconds)
            try await device.end()
        }
    }
}
