import HTTPTypes
import Logging
import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// An HTTP client that answers from a closure and keeps what it was asked.
final class ScriptedHTTP: HTTPTransport {
    typealias Script = @Sendable (HTTPRequest, [UInt8]) async throws(HTTPFailure) -> HTTPAnswer

    private let script: Script
    private let kept = Locked<[(request: HTTPRequest, body: [UInt8])]>([])
    private let closed = Locked(0)

    init(_ script: @escaping Script) { self.script = script }

    /// Answers with these, one after the other; the head of the last one serves all later requests, its body only one.
    convenience init(_ answers: [HTTPAnswer]) {
        let next = Locked(0)
        self.init { _, _ in
            next.withLock { next in
                defer { next += 1 }
                return answers[min(next, answers.count - 1)]
            }
        }
    }

    var requests: [HTTPRequest] { kept.withLock { $0.map(\.request) } }
    var bodies: [[UInt8]] { kept.withLock { $0.map(\.body) } }
    var closeCount: Int { closed.withLock { $0 } }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        kept.withLock { $0.append((request, body)) }
        return try await script(request, body)
    }

    func close() async { closed.withLock { $0 += 1 } }
}

extension HTTPAnswer {
    static func of(
        _ status: Int = 200, _ text: String = "", type: String? = "application/json", _ fields: [(String, String)] = []
    ) -> HTTPAnswer {
        var head = HTTPResponse(status: .init(code: status))
        if let type { head.headerFields[.contentType] = type }
        for (name, value) in fields { head.headerFields.append(HTTPField(name: .init(name)!, value: value)) }
        return HTTPAnswer(head: head, body: HTTPBody(Array(text.utf8)))
    }

    static func problem(_ status: Int, _ code: String, _ fields: [(String, String)] = []) -> HTTPAnswer {
        of(status, #"{"code":"\#(code)","title":"No"}"#, type: "application/problem+json", fields)
    }
}

/// Requests and answers as the tests of the batch dialect need them.
enum Sample {
    static func change(
        _ number: Int, _ operation: SyncCore.Operation = .update, unit: String? = nil,
        fields: [String: FieldDelta] = ["name": FieldDelta(old: "A", new: "B")]
    ) -> Change {
        Change(
            id: "key-\(number)", sequence: Int64(number), record: RecordKey("card", "id-\(number)"),
            operation: operation, stamp: Stamp(milliseconds: 1000, counter: 1), fields: fields, unit: unit)
    }

    static func request(_ changes: [Change] = [], since version: Int64 = 41, epoch: String? = "e-1") -> ExchangeRequest
    {
        ExchangeRequest(
            cycleID: "cycle", deviceID: "device", dataset: "d-1", epoch: epoch, lastSyncVersion: version,
            changes: changes)
    }

    /// An answer of the contract's shape; `members` replace or add some of it, and an empty text takes one away.
    static func answer(_ members: [String: String] = [:]) -> String {
        var all = [
            "protocol": "1", "cycleID": "\"cycle\"", "dataset": "\"d-1\"", "epoch": "\"e-1\"",
            "currentSyncVersion": "57", "hasMore": "false", "serverTime": "\"2026-11-21T08:00:00.123Z\"",
            "stamp": "\"0195a3f2c4d1-0004\"", "oldestVersion": "0", "count": "0", "results": "[]",
            "changedRecords": "[]",
        ]
        all.merge(members) { $1 }
        return "{"
            + all.filter { !$1.isEmpty }.sorted { $0.key < $1.key }.map { "\"\($0)\":\($1)" }
            .joined(separator: ",") + "}"
    }

    static func record(_ id: String, _ version: Int, _ fields: String = #"{"name":"x"}"#) -> String {
        #"{"entity":"card","id":"\#(id)","version":\#(version),"deleted":false,"fields":\#(fields)}"#
    }

    static func quiet() -> Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }

    /// A good answer may take its time on a machine that is busy elsewhere: no deadline of the system's clock ends a test.
    static let patient: BatchExchange.Options = {
        var options = BatchExchange.Options()
        options.deadlines = Deadlines(
            connect: .seconds(3_600), idle: .seconds(3_600), total: .seconds(3_600), credentials: .seconds(3_600))
        return options
    }()

    /// By the system's clock.
    static func exchange(
        _ http: any HTTPTransport, credentials: any Credentials = FixedCredentials(nil), account: String? = nil,
        options: BatchExchange.Options = patient, endpoint: String = "https://api.example.com"
    ) throws -> BatchExchange {
        try exchange(
            http, credentials: credentials, account: account, options: options, endpoint: endpoint,
            clock: ContinuousClock())
    }

    static func exchange<C: Clock>(
        _ http: any HTTPTransport, credentials: any Credentials = FixedCredentials(nil), account: String? = nil,
        options: BatchExchange.Options = .init(), endpoint: String = "https://api.example.com", clock: C
    ) throws -> BatchExchange where C.Duration == Duration {
        try BatchExchange(
            endpoint: endpoint, http: http, credentials: credentials, account: account, options: options,
            clock: clock, wallClock: FixedWallClock(), logger: quiet())
    }
}

/// 1994-11-06T08:49:37Z.
struct FixedWallClock: WallClock {
    var nowMilliseconds: Int64 = 784_111_777_000
}

/// Whether `body` throws an ``ExchangeFailure``, and which.
func failure(
    _ body: () async throws -> some Any, sourceLocation: SourceLocation = #_sourceLocation
) async -> ExchangeFailure? {
    await #expect(throws: ExchangeFailure.self, sourceLocation: sourceLocation) { _ = try await body() }
}
