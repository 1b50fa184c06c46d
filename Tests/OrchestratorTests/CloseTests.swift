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

    @Test("who listens to the engine comes to an end when it is closed, and so does who listens from then on")
    func streams() throws {
        try inVirtualTime { stage in
            let device = try stage.device(ScriptedExchange())
            let engine = device.engine
            try await withThrowingTaskGroup(of: Void.self) { group in
                let (events, statuses) = (await engine.events(), await engine.statuses())
                let ended = Counter()
                group.addTask {
                    for await _ in events {}
                    _ = ended.next()
                }
                group.addTask {
                    for await _ in statuses {}
                    _ = ended.next()
                }
                await engine.close()
                try await stage.pass(.seconds(1))
                #expect(ended.next() == 3)
                group.cancelAll()
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                let (events, statuses) = (await engine.events(), await engine.statuses())
                let ended = Counter()
                group.addTask {
                    for await _ in events {}
                    _ = ended.next()
                }
                group.addTask {
                    var last: SyncStatus?
                    for await status in statuses { last = status }
                    #expect(last?.activity == .idle)
                    _ = ended.next()
                }
                try await stage.pass(.seconds(1))
                #expect(ended.next() == 3)
                group.cancelAll()
            }
            try await device.end()
        }
    }
}
