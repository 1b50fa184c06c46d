import Foundation
import HTTPTypes
import Orchestrator
import SyncCore
import SyncServer
import SyncTesting
import Transport

/// An exchange in front of another one that notes when requests came, and does what the test wants with them.
final class Port: Exchange, @unchecked Sendable {
    // Sendable: `state` is used under `lock` alone.

    /// What becomes of a request.
    enum Act: Sendable {
        case pass
        case fail(ExchangeFailure)
        /// It is done, and the answer is lost.
        case lose
        /// It hangs for so long, or until it is cancelled, and then fails as timed out.
        case hang(Duration)
        /// It is answered after so long.
        case slow(Duration)
        /// The answer asks for a pause.
        case backoff(Double)
        /// The answer lacks its verdicts, and its page the records that follow from the request's changes.
        case mute
        /// Each change gets the verdict `retry`, with this floor; the pull is answered.
        case retryLater(Double)
        /// The answer has its verdicts, and no page; more is to be asked for.
        case pageless
    }

    struct Request: Sendable {
        var seconds: Double
        var changes: [Change]
        var request: ExchangeRequest
    }

    private struct State {
        var acts: [Act] = []
        var otherwise = Act.pass
        var requests: [Request] = []
        var now = 0
        var mostAtOnce = 0
    }

    private let lock = NSLock()
    private var state = State()
    private let inner: any Exchange
    private let clock: VirtualClock

    init(_ inner: any Exchange, clock: VirtualClock) {
        self.inner = inner
        self.clock = clock
    }

    /// What requests get that have no act of their own.
    var otherwise: Act {
        get { lock.withLock { state.otherwise } }
        set { lock.withLock { state.otherwise = newValue } }
    }

    func next(_ acts: Act...) { lock.withLock { state.acts += acts } }
    var requests: [Request] { lock.withLock { state.requests } }
    var mostAtOnce: Int { lock.withLock { state.mostAtOnce } }
    func forget() { lock.withLock { state.requests = [] } }

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        let (seconds, attoseconds) = clock.now.elapsed.components
        let act = lock.withLock { () -> Act in
            let time = Double(seconds) + Double(attoseconds) * 1e-18
            state.requests.append(Request(seconds: time, changes: request.changes, request: request))
            state.now += 1
            state.mostAtOnce = max(state.mostAtOnce, state.now)
            return state.acts.isEmpty ? state.otherwise : state.acts.removeFirst()
        }
        defer { lock.withLock { state.now -= 1 } }
        switch act {
        case .pass: return try await inner.exchange(request)
        case .fail(let failure): throw failure
        case .lose:
            _ = try await inner.exchange(request)
            throw .timedOut
        case .hang(let duration):
            try await sleep(duration)
            throw .timedOut
        case .slow(let duration):
            try await sleep(duration)
            return try await inner.exchange(request)
        case .backoff(let pause):
            var answer = try await inner.exchange(request)
            answer.backoffSeconds = pause
            return answer
        case .pageless:
            var answer = try await inner.exchange(request)
            answer.page = ArrayPage([])
            answer.currentSyncVersion = request.lastSyncVersion
            return answer
        case .retryLater(let seconds):
            var empty = request
            empty.changes = []
            var answer = try await inner.exchange(empty)
            answer.results = request.changes.map {
                ChangeResult(changeID: $0.id, verdict: .retry(afterSeconds: seconds))
            }
            return answer
        case .mute:
            var answer = try await inner.exchange(request)
            let own = Set(request.changes.map(\.record))
            answer.results = []
            answer.page = ArrayPage(
                try answer.page.next(maxRecords: .max, maxBytes: .max).filter { !own.contains($0.key) })
            return answer
        }
    }

    private func sleep(_ duration: Duration) async throws(ExchangeFailure) {
        do { try await clock.sleep(for: duration) } catch {
            throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
        }
    }

    func close() async {}
}

extension ExchangeFailure {
    /// A server that was reached and did not answer in time.
    static let timedOut = ExchangeFailure(kind: .network, message: "no answer in time", reachedServer: true)
    /// A portal's page.
    static let portal = ExchangeFailure(kind: .network, status: 200, message: "html came")
}

/// The server's real core over a file, reached through the real codec; one account.
final class RealServer: Sendable {
    let service: SyncService
    let exchange: BatchExchange
    private let folder: URL

    init(_ stage: Stage) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("server-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let entities = Device.schema.map { entity in
            ServerEntity(
                entity.name, collection: entity.name + "s",
                parents: entity.parents.map { .init(field: $0.name, entity: $0.reference?.entity ?? "") })
        }
        let service = try SyncService(
            path: folder.appendingPathComponent("server.sqlite").path,
            configuration: ServerConfiguration(entities: entities, synchronous: .normal), clock: stage.wall,
            randomness: SeededRandomness(seed: 7))
        self.service = service
        exchange = try BatchExchange(
            endpoint: "https://server.invalid", http: ServiceHTTP { service.sync(account: "account", body: $0) },
            clock: stage.clock, wallClock: stage.wall, ids: SeededIDs(seed: 8))
    }

    func end() throws {
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }
}

/// An HTTP client whose server is a function.
struct ServiceHTTP: HTTPTransport {
    let serve: @Sendable ([UInt8]) -> ServerReply

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        let isPlain = request.headerFields[.contentEncoding] == nil
        let reply = isPlain ? serve(body) : ServerReply(status: 415)
        var head = HTTPResponse(status: .init(code: reply.status))
        for header in reply.headers {
            if let name = HTTPField.Name(header.name) { head.headerFields[name] = header.value }
        }
        return HTTPAnswer(head: head, body: HTTPBody(reply.body))
    }

    func close() async {}
}

/// Hints that a test gives: a stream for each call, which the test opens, speaks on and breaks.
final class Hinter: HintSource, @unchecked Sendable {
    // Sendable: `streams` and `calls` are used under `lock` alone.
    private let lock = NSLock()
    private var streams: [AsyncStream<Hint>.Continuation] = []
    private var calls: [(seconds: Double, after: Int64?)] = []
    private var isOpen = true
    private var refusal: ExchangeFailure?
    private var life: Duration?
    private let clock: VirtualClock

    init(clock: VirtualClock) { self.clock = clock }

    /// How long each stream lives from now on; `nil` as long as nobody breaks it.
    func set(life: Duration?) { lock.withLock { self.life = life } }

    /// Whether a call opens a stream, or fails at once.
    func set(open: Bool) { lock.withLock { isOpen = open } }
    /// What each call fails with from now on; `nil` opens streams again.
    func set(refusal: ExchangeFailure?) { lock.withLock { self.refusal = refusal } }
    var openings: [Double] { lock.withLock { calls.map(\.seconds) } }

    func say(_ hint: Hint) { for stream in lock.withLock({ streams }) { stream.yield(hint) } }
    func breakStreams() {
        let open = lock.withLock { () -> [AsyncStream<Hint>.Continuation] in
            defer { streams = [] }
            return streams
        }
        for stream in open { stream.finish() }
    }

    func listen(
        after version: Int64?, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure) {
        let (seconds, attoseconds) = clock.now.elapsed.components
        let (stream, continuation) = AsyncStream.makeStream(of: Hint.self)
        let opens = lock.withLock { () -> Bool in
            calls.append((Double(seconds) + Double(attoseconds) * 1e-18, version))
            if isOpen { streams.append(continuation) }
            return isOpen
        }
        if let refusal = lock.withLock({ refusal }) { throw refusal }
        guard opens else { throw .unreachable }
        await heard(.opened)
        if let life = lock.withLock({ life }) {
            do { try await clock.sleep(for: life) } catch {
                throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
            }
            return
        }
        for await hint in stream { await heard(.hint(hint)) }
        if Task.isCancelled { throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true) }
    }
}

/// Counts up from 1.
final class Counter: @unchecked Sendable {
    // Sendable: `value` is used under `lock` alone.
    private let lock = NSLock()
    private var value = 0
    func next() -> Int {
        lock.withLock {
            value += 1
            return value
        }
    }
}
