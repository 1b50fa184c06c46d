import Orchestrator
import SyncCore
import SyncTesting
import Testing

@Suite("The engine's gate keeps the contract") struct GateContractTests {
    @Test("for each lane", arguments: GateContract.rules.indices, [SyncGate.Lane.records, .contents])
    func gate(rule: Int, lane: SyncGate.Lane) throws {
        try inVirtualTime { stage in
            let device = try stage.device(ModelServer(schema: Device.parsed, clock: stage.wall))
            let engine = device.engine
            let busy = ScriptedFetcher([.fail(.status(503, retryAfter: 120))])
            let sender = engine.noting(busy as any RecordFetcher)
            try await GateContract.rules[rule].check(
                GateSubject(
                    gate: engine.gate(for: lane),
                    close: { reason in
                        switch reason {
                        case .own: await engine.pause()
                        case .serverWord:
                            await #expect(throws: ExchangeFailure.self) {
                                try await sender.fetch(DownloadRequest(scope: "", priority: 0))
                            }
                        }
                    },
                    open: {
                        await engine.resume()
                        try await stage.pass(.seconds(180))
                    }, now: { stage.wall.nowMilliseconds }))
            try await device.end()
        }
    }
}
