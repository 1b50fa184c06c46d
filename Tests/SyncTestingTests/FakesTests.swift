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
                store: store, row: { await store.row($0) }, write: { await store.write($0, $1) },
                failDisk: { fails in
                    await store.failSlices(
                        fails ? StoreFailure(kind: .full, message: "no space") : nil, afterRecords: 7)
                }))
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
        // Behind the last line.
        await #expect(throws: ExchangeFailure.unreachable) { try await exchange.exchange(request) }
    }

    @Test("Lines are put behind those that are left, and what comes behind the last is the test's to say")
    func appended() async throws {
        let request = ExchangeRequest(cycleID: "c", deviceID: "d")
        let exchange = ScriptedExchange([.failure(.status(500))], otherwise: .failure(.status(429)))
        exchange.append([.failure(.status(503)), .failure(.status(401))])
        #expect(exchange.remaining == 3)
        for status in [500, 503, 401, 429, 429] {
            let failure = await #expect(throws: ExchangeFailure.self) { try await exchange.exchange(request) }
            #expect(failure?.status == status)
        }
        exchange.append([.failure(.status(500))])
        await exchange.close()
        await #expect(throws: ExchangeFailure.closed) { try await exchange.exchange(request) }
        #expect(exchange.remaining == 1, "a closed exchange plays no line")
        #expect(exchange.requests.count == 6)
    }

    @Test("A connection is switched off and on between requests, and closes what is behind it")
    func connectivity() async throws {
        let request = ExchangeRequest(cycleID: "c", deviceID: "d")
        let inner = ScriptedExchange(
            otherwise: .answer { _ throws(ExchangeFailure) in
                ExchangeAnswer(epoch: "e", currentSyncVersion: 3, page: ArrayPage([]))
            })
        let connection = ConnectivitySwitch(inner)
        #expect(connection.isConnected)
        #expect(try await connection.exchange(request).currentSyncVersion == 3)
        connection.isConnected = false
        #expect(!connection.isConnected)
        await #expect(throws: ExchangeFailure.unreachable) { try await connection.exchange(request) }
        #expect(inner.requests.count == 1, "nothing got through")
        connection.isConnected = true
        #expect(try await connection.exchange(request).currentSyncVersion == 3)
        await #expect(throws: ExchangeFailure.unreachable) {
            try await ConnectivitySwitch(inner, isOn: false).exchange(request)
        }
        await connection.close()
        await #expect(throws: ExchangeFailure.closed) { try await connection.exchange(request) }
        #expect(inner.requests.count == 3)
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
