import SyncCore
import SyncTesting
import Testing
import Transport

@Suite("Transport's exchanges, over the real server's core, keep the contract", .timeLimit(.minutes(20)))
struct ExchangeContractTests {
    private func check(
        _ rule: Int, _ front: (BatchExchange) throws -> any Exchange = { $0 }
    ) async throws {
        let server = try ContractServer()
        let http = server.batch()
        let exchange = try BatchExchange(
            endpoint: "https://server.invalid", http: http, clock: VirtualClock(), wallClock: ManualWallClock(),
            ids: SeededIDs(seed: 8), logger: ContractHTTP.quiet)
        try await ExchangeContract.rules[rule].check(
            ExchangeSubject(
                exchange: try front(exchange), sent: { http.requests.count },
                suffer: { fate in
                    switch fate {
                    case .refused: http.suffer(.refused)
                    case .answerLost: http.suffer(.answerLost)
                    case .held: http.suffer(.held)
                    }
                }, waitForHeld: { await http.waitForHeld() }))
        try server.end()
    }

    @Test("the batch dialect", arguments: ExchangeContract.rules.indices)
    func batch(rule: Int) async throws { try await check(rule) }

    @Test("with ids of the server's in the place of this device's", arguments: ExchangeContract.rules.indices)
    func translated(rule: Int) async throws {
        let ids = InMemoryIDs()
        for number in 1...3 { ids.put(RecordKey("board", "b\(number)"), "server-\(number)") }
        try await check(rule) {
            IDTranslatingExchange($0, schema: try Schema(ExchangeContract.entities), translation: ids)
        }
    }
}
