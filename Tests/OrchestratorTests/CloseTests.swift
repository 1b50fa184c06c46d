import Orchestrator
import SyncCore
import SyncTesting
import Testing

struct CloseTests {
    @Test("closing the engine ends its run and closes the exchange, with the HTTP client behind it")
    func closed() async throws {
        let exchange = ScriptedExchange()
        let device = try Device(exchange)
        async let running: Void = device.engine.run()
        await device.engine.close()
        try await running
        let failure = await #expect(throws: ExchangeFailure.self) {
            try await exchange.exchange(ExchangeRequest(cycleID: "c", deviceID: "d"))
        }
        #expect(failure?.isCancelled == true)
        try await device.end()
    }
}
