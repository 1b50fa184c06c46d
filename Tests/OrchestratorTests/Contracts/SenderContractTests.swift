import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import Transport
import UploadQueue

@Suite("Transport's senders over the real server's core, and who notes what they came to", .timeLimit(.minutes(20)))
struct SenderContractTests {
    private func check(_ rule: Int, _ front: (RESTSender) throws -> any ChangeSender = { $0 }) async throws {
        let server = try ContractServer()
        let http = server.rest()
        let sender = try RESTSender(
            endpoint: "https://server.invalid", mappings: ["board": RESTMapping(collection: "boards")], http: http,
            clock: VirtualClock(), wallClock: ManualWallClock(), ids: SeededIDs(seed: 8), logger: ContractHTTP.quiet)
        try await ChangeSenderContract.rules[rule].check(
            ChangeSenderSubject(
                sender: try front(sender),
                arrivals: {
                    http.requests.filter { $0.method != .get }.map { request in
                        .init(changeID: request.named("Idempotency-Key"), deviceID: request.named("Sync-Device"))
                    }
                },
                suffer: { fate, changeID in
                    let fate: ContractHTTP.Fate =
                        switch fate {
                        case .refused: .refused
                        case .answerLost: .answerLost
                        case .held: .held
                        }
                    http.suffer(fate) { request in
                        changeID.map { request.named("Idempotency-Key") == $0 } ?? (request.method == .get)
                    }
                }, waitForHeld: { await http.waitForHeld() }))
        try server.end()
    }

    @Test("the REST dialect", arguments: ChangeSenderContract.rules.indices)
    func rest(rule: Int) async throws { try await check(rule) }

    @Test("with ids of the server's in the place of this device's", arguments: ChangeSenderContract.rules.indices)
    func translated(rule: Int) async throws {
        let ids = InMemoryIDs()
        ids.put(RecordKey("board", "b1"), "server-1")
        try await check(rule) {
            IDTranslatingSender($0, schema: try Schema(ExchangeContract.entities), translation: ids)
        }
    }

    @Test("two closures", arguments: ChangeSenderContract.rules.indices)
    func closures(rule: Int) async throws {
        try await check(rule) { sender in
            ClosureSender {
                () async throws(ExchangeFailure) in
                try await sender.probe()
            } send: { changes, deviceID throws(ExchangeFailure) in
                try await sender.send(changes, deviceID: deviceID)
            }
        }
    }

    @Test("a sender of which the engine's gate hears", arguments: ChangeSenderContract.rules.indices)
    func noted(rule: Int) async throws {
        let schema = Device.parsed
        let device = try Device(ModelServer(schema: schema, clock: ManualWallClock()), seed: 1)
        try await check(rule) { device.engine.noting($0 as any ChangeSender) }
        try await device.end()
    }

    @Test("a fetcher of which the engine's gate hears", arguments: RecordFetcherContract.rules.indices)
    func notedFetcher(rule: Int) async throws {
        let device = try Device(ModelServer(schema: Device.parsed, clock: ManualWallClock()), seed: 1)
        let fetcher = ScriptedFetcher()
        try await RecordFetcherContract.rules[rule].check(
            RecordFetcherSubject(
                fetcher: device.engine.noting(fetcher as any RecordFetcher), asked: { fetcher.requests },
                suffer: { fetcher.next($0 == .refused ? .fail(.status(503)) : .hold) },
                waitForHeld: { await fetcher.waitForHeld(1) }))
        try await device.end()
    }
}

extension HTTPRequest {
    /// A header's value without its quotes; empty where there is none.
    fileprivate func named(_ name: String) -> String {
        let value = HTTPField.Name(name).flatMap { headerFields[$0] } ?? ""
        return value.filter { $0 != "\"" }
    }
}
