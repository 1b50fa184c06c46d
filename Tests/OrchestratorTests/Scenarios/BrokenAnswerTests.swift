import Foundation
import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Testing
import Transport

/// What becomes of a request with changes.
enum Break: String, Sendable, CaseIterable {
    /// The head of the answer came, and a part of its body.
    case inTheBody
    /// The connection was reset, or closed, without a byte of an answer.
    case beforeTheHead
    /// No answer came in time.
    case silence
}

/// An HTTP client whose answers to requests with changes never come whole; all others do.
private final class BreakingHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var fault: Break?
    private(set) var broken = 0
    private let inner: ServiceHTTP

    init(_ inner: ServiceHTTP) { self.inner = inner }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        let answer = try await inner.send(request, body: body)
        guard let fault, String(decoding: body, as: UTF8.self).contains("changeID") else { return answer }
        broken += 1
        switch fault {
        case .beforeTheHead: throw HTTPFailure(.interrupted, "the connection was reset")
        case .silence: throw HTTPFailure(.timedOut, "no answer within the deadlines")
        case .inTheBody:
            let isBegun = Flag()
            return HTTPAnswer(
                head: answer.head,
                body: HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                    guard isBegun.isSet else {
                        isBegun.isSet = true
                        return Array("{\"protocol\": 1".utf8)
                    }
                    throw HTTPFailure(.interrupted, "the body ended before its end")
                })
        }
    }

    func close() async {}
}

private final class Flag: @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var isSet = false
}

@Suite("PROTOCOL.md section 4: what never counts against a change")
struct BrokenAnswerTests {
    private func device(
        _ stage: Stage, _ server: RealServer, _ fault: Break
    ) async throws -> (device: Device, http: BreakingHTTP) {
        let service = server.service
        let http = BreakingHTTP(ServiceHTTP { service.sync(account: "account", body: $0) })
        let exchange = try BatchExchange(
            endpoint: "https://server.invalid", http: http, clock: stage.clock, wallClock: stage.wall,
            ids: SeededIDs(seed: 8))
        let device = try stage.device(exchange)
        _ = await device.engine.syncNow()
        http.fault = fault
        return (device, http)
    }

    @Test(
        "NET-07 QUE-06 a change that stands alone, and whose answers only ever break off, is never set aside; what it waits for is told",
        arguments: [Break.inTheBody, .beforeTheHead])
    func neverItsOwn(fault: Break) throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let (device, http) = try await device(stage, server, fault)
            try await device.addBoard("b-1")
            for _ in 0..<40 {
                _ = await device.engine.syncNow()
                try await stage.pass(.seconds(30))
            }
            #expect(http.broken == 40, "held back by nothing, and no hot loop")
            let summary = try await device.store.summary()
            #expect(summary.failed == 0 && summary.hasWork)
            #expect(try await device.store.queued().map(\.attempts) == [0])
            #expect(summary.schedule.cause?.contains("The connection broke") == true)
            http.fault = nil
            #expect(await device.engine.syncNow().end == .complete)
            #expect(try await device.store.summary().hasWork == false)
            try await device.end()
            try server.end()
        }
    }

    @Test("QUE-06 a change to which no answer comes in time, again and again, is set aside while all else is answered")
    func timeOut() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let device = try await device(stage, server, .silence).device
            try await device.addBoard("b-1")
            for _ in 0..<40 {
                _ = await device.engine.syncNow()
                try await stage.pass(.seconds(30))
            }
            #expect(try await device.store.summary().failed == 1)
            #expect(try await device.store.failures().map(\.isUncertain) == [true])
            try await device.end()
            try server.end()
        }
    }

    @Test("NET-07 of several changes whose answers break off fewer are sent at once: a short answer may come whole")
    func halved() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let (device, http) = try await device(stage, server, .inTheBody)
            for number in 0..<8 { try await device.addBoard("b-\(number)") }
            for _ in 0..<3 {
                _ = await device.engine.syncNow()
                try await stage.pass(.seconds(30))
            }
            http.fault = nil
            #expect(await device.engine.syncNow().requests > 1)
            #expect(try await device.store.summary().hasWork == false)
            try await device.end()
            try server.end()
        }
    }
}
