import CoreMetrics
import Foundation
import Logging
import MetricsTestKit
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// Everything that was logged, as text.
private final class Lines: @unchecked Sendable {
    // Sendable: `lines` is used under `lock` alone.
    private let lock = NSLock()
    private var lines: [String] = []
    func add(_ line: String) { lock.withLock { lines.append(line) } }
    var all: [String] { lock.withLock { lines } }
}

/// Keeps what a logger is told.
private struct KeepingHandler: LogHandler {
    let lines: Lines
    var logLevel = Logger.Level.trace
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { lines.add("\(event.level) \(event.message) \(event.metadata ?? [:])") }
}

@Suite struct MetricsTests {
    private func engine(
        _ stage: Stage, _ device: Device, _ exchange: any Exchange, _ metrics: TestMetrics, _ lines: Lines = Lines(),
        _ handlers: [any Syncable] = []
    ) -> SyncEngine {
        SyncEngine(
            store: device.store, exchange: exchange, handlers: handlers, wallClock: stage.wall, clock: stage.clock,
            randomness: SeededRandomness(seed: 3), ids: SeededIDs(seed: 3),
            logger: Logger(label: "test") { _ in KeepingHandler(lines: lines) }, metrics: metrics)
    }

    @Test("OBS-08 a cycle's end is logged with its cause, its figures and how long it took, whatever it was")
    func loggedEnds() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, lines) = (try stage.device(port), Lines())
            let engine = engine(stage, device, port, TestMetrics(), lines)
            try await device.addBoard("b-1", "secret name")
            port.next(.slow(.milliseconds(70)))
            _ = await engine.syncNow()
            let complete = lines.all.filter { $0.contains("cycle ended") && $0.contains("complete") }
            #expect(complete.count == 1)
            for word in ["info", "\"cause\": user", "\"milliseconds\": 70", "\"acknowledged\": 1"] {
                #expect(complete.first?.contains(word) == true, "\(word)")
            }
            port.next(.fail(.status(503)))
            _ = await engine.syncNow()
            #expect(lines.all.contains { $0.contains("cycle ended") && $0.contains("status 503") })
            await engine.pause()
            _ = await engine.runOnce(deadline: .seconds(5))
            #expect(lines.all.contains { $0.contains("debug cycle ended") && $0.contains("notNow") })
            #expect(!lines.all.contains { $0.contains("secret") || $0.contains("b-1") })
            try await device.end()
        }
    }

    @Test("Cycles, requests, changes by verdict and records are counted, and cycles are timed by the engine's clock")
    func counted() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            server.ruling = { change in
                change.record.id == "b-2" ? .reject(Rejection(code: .forbidden, message: "no")) : .decide
            }
            let port = Port(server, clock: stage.clock)
            let (device, metrics) = (try stage.device(port), TestMetrics())
            let engine = engine(stage, device, port, metrics)
            _ = await engine.syncNow()
            for id in ["b-1", "b-2", "b-3"] { try await device.addBoard(id) }
            port.next(.slow(.seconds(3)))
            _ = await engine.syncNow()
            port.next(.fail(.timedOut))
            _ = await engine.syncNow()
            func total(_ label: String, _ dimensions: [(String, String)] = []) -> Int64 {
                metrics.counterTotal(label: label, dimensions: dimensions)
            }
            #expect(total("ferry_cycles", [("cause", "user"), ("end", "complete")]) == 2)
            #expect(total("ferry_cycles", [("cause", "user"), ("end", "network")]) == 1)
            #expect(total("ferry_requests") == 3)
            #expect(total("ferry_changes_sent") == 3)
            #expect(total("ferry_verdicts", [("verdict", "applied")]) == 2)
            #expect(total("ferry_verdicts", [("verdict", "rejected")]) == 1)
            let timer = try metrics.expectTimer("ferry_cycle_duration", [("end", "complete")])
            #expect(timer.values.max() == 3_000_000_000)
            // A cycle that is held back is counted, and took no time.
            await engine.pause()
            _ = await engine.runOnce(deadline: .seconds(5))
            #expect(total("ferry_cycles", [("cause", "background"), ("end", "notNow")]) == 1)
            #expect(try metrics.expectTimer("ferry_cycle_duration", [("end", "complete")]).values.count == 2)
            try await device.end()
        }
    }

    @Test("What is worth an alarm is counted by its name")
    func events() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, metrics) = (try stage.device(port), TestMetrics())
            let engine = engine(stage, device, port, metrics)
            port.otherwise = .fail(.timedOut)
            for _ in 0..<5 { _ = await engine.syncNow() }
            #expect(metrics.counterTotal(label: "ferry_events", dimensions: [("event", "breakerOpened")]) == 1)
            port.otherwise = .pass
            _ = await engine.syncNow()
            #expect(metrics.counterTotal(label: "ferry_events", dimensions: [("event", "breakerClosed")]) == 1)
            try await device.end()
        }
    }

    @Test("OBS-08 neither logs, nor metrics, nor the record of cycles hold contents, ids or an answer's own words")
    func redacted() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, metrics, lines) = (try stage.device(port), TestMetrics(), Lines())
            let broken = Telltale()
            let engine = engine(stage, device, port, metrics, lines, [broken])
            let words = "SECRET-IN-AN-ANSWER of record SECRET-ID"
            let failures = [
                ExchangeFailure(
                    kind: .temporary, status: 503, code: "SECRET in a code", message: words, reachedServer: true),
                ExchangeFailure(kind: .network, message: words, reachedServer: true),
                ExchangeFailure(kind: .unknown, status: 418, code: "teapot", message: words, reachedServer: true),
                ExchangeFailure(kind: .authentication, status: 401, message: words, reachedServer: true),
            ]
            _ = await engine.syncNow()
            try await device.addBoard("SECRET-ID", "SECRET-NAME")
            for failure in failures + failures {
                port.next(.fail(failure))
                _ = await engine.syncNow()
                try await stage.pass(.seconds(100))
            }
            _ = await engine.syncNow()
            #expect(lines.all.count >= 8)
            #expect(lines.all.contains { $0.contains("status 503") } && lines.all.contains { $0.contains("teapot") })
            for line in lines.all { #expect(!line.contains("SECRET"), "\(line)") }
            for cycle in try await engine.recentCycles() { #expect(!"\(cycle)".contains("SECRET")) }
            for counter in metrics.counters { #expect(!"\(counter.label)\(counter.dimensions)".contains("SECRET")) }
            try await device.end()
        }
    }
}

/// A handler whose error tells what nobody should read.
private struct Telltale: Syncable {
    let schema = Device.parsed["card"] ?? EntitySchema("card", fields: [])
    struct Leak: Error, CustomStringConvertible { let description = "SECRET-OF-A-HANDLER" }
    func collectDirty() async throws -> [FoundChange] { throw Leak() }
}
