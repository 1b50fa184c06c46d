import SyncCore
import SyncTesting
import Testing

@Suite struct FakesTests {
    @Test("The in-memory download log keeps the contract", arguments: DownloadLogContract.rules.indices)
    func downloadLog(rule: Int) async throws {
        try await DownloadLogContract.rules[rule].check(InMemoryDownloadLog())
    }

    @Test("The in-memory state log keeps the contract", arguments: StateLogContract.rules.indices)
    func stateLog(rule: Int) async throws {
        let log = InMemoryStateLog()
        try await StateLogContract.rules[rule].check(
            StateLogSubject(log: log) { record, ancestors, counts in
                await log.put(record, under: ancestors, counts)
            })
    }

    @Test("The in-memory record store keeps the contract", arguments: RecordStoreContract.rules.indices)
    func recordStore(rule: Int) async throws {
        let store = InMemoryRecordStore(schema: try Schema(RecordStoreContract.entities))
        try await RecordStoreContract.rules[rule].check(
            RecordStoreSubject(
                store: store, row: { await store.row($0) }, write: { await store.write($0, $1) }))
    }

    @Test("A contract suite finds a store that forgets the checkpoint")
    func brokenStore() async throws {
        struct Broken: DownloadLog {
            func ask(_ request: DownloadRequest) async throws(StoreFailure) {}
            func claim() async throws(StoreFailure) -> DownloadRequest? { nil }
            func finish(_ scope: String) async throws(StoreFailure) {}
            func withdraw(_ scope: String) async throws(StoreFailure) {}
        }
        await #expect(throws: ContractViolation.self) {
            for rule in DownloadLogContract.rules { try await rule.check(Broken()) }
        }
    }

    @Test("A script answers line by line, and keeps what was asked")
    func script() async throws {
        let exchange = ScriptedExchange([
            .failure(.status(503, retryAfter: 7)),
            .answer { request throws(ExchangeFailure) in
                ExchangeAnswer(epoch: "e", currentSyncVersion: request.lastSyncVersion, page: ArrayPage([]))
            },
        ])
        let request = ExchangeRequest(cycleID: "c", deviceID: "d", lastSyncVersion: 4)
        await #expect(throws: ExchangeFailure.self) { try await exchange.exchange(request) }
        #expect(try await exchange.exchange(request).currentSyncVersion == 4)
        #expect(exchange.requests.count == 2)
        #expect(exchange.remaining == 0)
        let connectivity = ConnectivitySwitch(exchange, isOn: false)
        await #expect(throws: ExchangeFailure.unreachable) { try await connectivity.exchange(request) }
    }

    @Test("A page is read in slices, and always goes on")
    func page() throws {
        let records = (1...5).map { ServerRecord(key: RecordKey("board", "b\($0)"), version: $0) }
        let page = ArrayPage(records)
        #expect(try page.next(maxRecords: 2, maxBytes: 1 << 20).map(\.version) == [1, 2])
        #expect(try page.next(maxRecords: 10, maxBytes: 1).map(\.version) == [3])
        #expect(try page.next(maxRecords: 10, maxBytes: 1 << 20).map(\.version) == [4, 5])
        #expect(try page.next(maxRecords: 10, maxBytes: 1 << 20).isEmpty)
    }
}
