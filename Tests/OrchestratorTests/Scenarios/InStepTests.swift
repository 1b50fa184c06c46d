import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// Fails what carries changes, and answers what carries none.
private final class NoPush: Exchange, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var failure: ExchangeFailure?
    private let inner: any Exchange
    init(_ inner: any Exchange, _ failure: ExchangeFailure) { (self.inner, self.failure) = (inner, failure) }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        if let failure, !request.changes.isEmpty { throw failure }
        return try await inner.exchange(request)
    }
    func close() async {}
}

@Suite("OBS-02 what is said to be in step is in step: nothing waits, nothing is set aside, nothing is held")
struct InStepTests {
    /// When all was last in step, as an engine of the next start would tell it.
    private func learned(_ stage: Stage, _ device: Device) async throws -> Int64? {
        try await device.store.recentCycles(limit: 1).first?.lastSyncedMilliseconds
    }

    @Test("a pull that is complete while changes wait for their time to be tried again is not in step")
    func backingOff() throws {
        try inVirtualTime { stage in
            let exchange = NoPush(ModelServer(schema: Device.parsed, clock: stage.wall), .status(500))
            let device = try stage.device(exchange)
            _ = await device.engine.syncNow()
            let synced = try #require(await device.status.lastSyncedMilliseconds)
            #expect(try await learned(stage, device) == synced)
            try await stage.pass(.seconds(5))
            try await device.addBoard("b-1")
            for _ in 0..<4 { _ = await device.engine.syncNow() }
            let report = await device.engine.runOnce(deadline: .seconds(10))
            #expect(report.end == .complete && report.isPulled && report.sent == 0)
            #expect(try await device.store.summary().hasWork)
            #expect(await device.status.lastSyncedMilliseconds == synced)
            #expect(try await learned(stage, device) == synced)
            #expect(try await device.store.recentCycles(limit: 1).first?.end == "complete")
            exchange.failure = nil
            #expect(await device.engine.syncNow().acknowledged == 1)
            let now = stage.wall.nowMilliseconds
            #expect(await device.status.lastSyncedMilliseconds == now)
            #expect(try await learned(stage, device) == now)
            try await device.end()
        }
    }

    @Test("nor is one that leaves a change set aside, or blocked behind one")
    func setAside() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let device = try stage.device(server)
            _ = await device.engine.syncNow()
            let synced = try #require(await device.status.lastSyncedMilliseconds)
            try await stage.pass(.seconds(5))
            server.ruling = { _ in .reject(Rejection(code: .forbidden, message: "no")) }
            try await device.addBoard("b-1")
            for _ in 0..<2 {
                #expect(await device.engine.syncNow().end == .complete)
                #expect(await device.status.lastSyncedMilliseconds == synced)
                #expect(try await learned(stage, device) == synced)
            }
            try await device.end()
        }
    }

    @Test("nor one after which a record waits for a parent that has not come")
    func held() throws {
        try inVirtualTime { stage in
            let inner = ModelServer(schema: Device.parsed, clock: stage.wall)
            let orphan = ServerRecord(
                key: RecordKey("list", "l-1"), version: 1, fields: ["name": "Sowing", "idBoard": "b-9"])
            let device = try stage.device(OneRecord(inner, orphan))
            let summary = try await device.engine.sync(for: .seconds(10))
            #expect(summary.report.end == .complete && summary.held == 1)
            #expect(await device.status.lastSyncedMilliseconds == nil)
            #expect(try await learned(stage, device) == nil)
            try await device.end()
        }
    }
}

/// Adds a record to the first page.
private final class OneRecord: Exchange, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    private let inner: any Exchange
    private let record: ServerRecord
    init(_ inner: any Exchange, _ record: ServerRecord) {
        self.inner = inner
        self.record = record
    }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        var answer = try await inner.exchange(request)
        answer.currentSyncVersion = max(answer.currentSyncVersion, record.version)
        if request.lastSyncVersion < record.version { answer.page = ArrayPage([record]) }
        return answer
    }
    func close() async {}
}
