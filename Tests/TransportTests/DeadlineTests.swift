import HTTPTypes
import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// Deadlines, in virtual time.
struct DeadlineTests {
    private let clock = VirtualClock()

    /// Never ends but by cancellation.
    private static func hang() async throws(HTTPFailure) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        for await _ in stream {}
        continuation.finish()
        throw HTTPFailure(.cancelled, "cancelled")
    }

    /// Runs an exchange and moves the clock whenever the watch sleeps, until the exchange has failed.
    private func failureInTime(_ exchange: BatchExchange) async -> ExchangeFailure? {
        let isDone = Locked(false)
        async let failed = {
            let failure = await failure { try await exchange.exchange(Sample.request()) }
            isDone.withLock { $0 = true }
            return failure
        }()
        while !isDone.withLock({ $0 }) {
            if clock.sleeperCount > 0 { clock.advance(by: .seconds(1)) }
            await Task.yield()
        }
        return await failed
    }

    private func body(_ bytes: Int, every pause: Duration, times: Int) -> HTTPBody {
        let left = Locked(times)
        let clock = clock
        return HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
            if Task.isCancelled { throw HTTPFailure(.cancelled, "cancelled") }
            guard
                left.withLock({
                    $0 -= 1; return $0
                }) >= 0
            else { return nil }
            clock.advance(by: pause)
            await Task.yield()
            return [UInt8](repeating: 0x20, count: bytes)
        }
    }

    private func answer(_ body: HTTPBody) -> HTTPAnswer {
        var answer = HTTPAnswer.of(200)
        answer.body = body
        return answer
    }

    @Test("NET-05 an answer that never comes ends after the connection's and the idle time")
    func silence() async throws {
        let http = ScriptedHTTP { _, _ throws(HTTPFailure) in
            try await Self.hang()
            return .of()
        }
        let exchange = try Sample.exchange(http, clock: clock)
        let failure = await failureInTime(exchange)
        #expect(clock.now.elapsed >= .seconds(40))
        #expect(failure?.kind == .network)
        #expect(failure?.reachedServer == true)
        #expect(failure?.isCancelled == false)
    }

    @Test("NET-05 a body that stops ends after the idle time")
    func stalledBody() async throws {
        let http = ScriptedHTTP([
            answer(
                HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                    try await Self.hang()
                    return nil
                })
        ])
        let exchange = try Sample.exchange(http, clock: clock)
        #expect(await failureInTime(exchange)?.reachedServer == true)
    }

    @Test("NET-06 a byte every five seconds ends by the least rate, long before the total")
    func slowLoris() async throws {
        let http = ScriptedHTTP([answer(body(1, every: .seconds(5), times: 1_000_000))])
        let exchange = try Sample.exchange(http, clock: clock)
        let failure = await failure { try await exchange.exchange(Sample.request()) }
        #expect(failure?.kind == .network)
        #expect(clock.now.elapsed <= .seconds(60))
    }

    @Test("NET-06 a stream that is fast enough but has no end is ended by the total")
    func endless() async throws {
        let http = ScriptedHTTP([answer(body(10_000, every: .seconds(1), times: 1_000_000))])
        let exchange = try Sample.exchange(http, clock: clock)
        let failure = await failure { try await exchange.exchange(Sample.request()) }
        #expect(failure?.kind == .network)
        #expect(clock.now.elapsed >= .seconds(120))
    }

    @Test("a slow but steady answer is taken")
    func steady() async throws {
        let text = Array(Sample.answer().utf8)
        let spaces = body(1_000, every: .seconds(1), times: 100)
        let isEnd = Locked(false)
        let http = ScriptedHTTP([
            answer(
                HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                    if let piece = try await spaces.next() { return piece }
                    return isEnd.withLock { isEnd in
                        defer { isEnd = true }
                        return isEnd ? nil : text
                    }
                })
        ])
        #expect(try await Sample.exchange(http, clock: clock).exchange(Sample.request()).epoch == "e-1")
    }

    @Test("credentials that never come end, too")
    func credentials() async throws {
        struct Hanging: Credentials {
            func token() async throws -> Token? {
                try await DeadlineTests.hang()
                return nil
            }
            func refresh(_ old: Token?) async throws -> Token? { nil }
        }
        let exchange = try Sample.exchange(ScriptedHTTP([.of()]), credentials: Hanging(), clock: clock)
        #expect(await failureInTime(exchange)?.isCancelled == false)
    }

    @Test("the caller's cancellation is no deadline, and leaves nobody asleep")
    func cancelled() async throws {
        let http = ScriptedHTTP { _, _ throws(HTTPFailure) in
            try await Self.hang()
            return .of()
        }
        let exchange = try Sample.exchange(http, clock: clock)
        let task = Task { await failure { try await exchange.exchange(Sample.request()) } }
        await clock.waitForSleepers(1)
        task.cancel()
        let ended = await task.value
        #expect(ended?.isCancelled == true)
        #expect(clock.sleeperCount == 0)
    }

    /// By the system's clock, where one timer watches over all requests.
    private func live(_ http: ScriptedHTTP) throws -> BatchExchange {
        var options = BatchExchange.Options()
        options.deadlines = Deadlines(connect: .seconds(1), idle: .seconds(1), leastRate: 0)
        return try Sample.exchange(http, options: options)
    }

    @Test("NET-05 among many requests the timer ends those that hang, and no other; later ones are watched, too")
    func timer() async throws {
        let number = Locked(0)
        let http = ScriptedHTTP { _, _ throws(HTTPFailure) in
            let hangs = number.withLock { number in
                number += 1
                return number.isMultiple(of: 2)
            }
            if hangs { try await Self.hang() }
            return .of(200, Sample.answer())
        }
        let exchange = try live(http)
        for _ in 0..<3 {
            let ended = await withTaskGroup(of: ExchangeFailure?.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        do throws(ExchangeFailure) {
                            _ = try await exchange.exchange(Sample.request())
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(ended.count { $0 == nil } == 10)
            #expect(ended.compactMap { $0 }.allSatisfy { $0.reachedServer && !$0.isCancelled })
        }
    }

    @Test("the caller's cancellation is no deadline by the system's clock either")
    func cancelledLive() async throws {
        let (began, begin) = AsyncStream.makeStream(of: Void.self)
        let http = ScriptedHTTP { _, _ throws(HTTPFailure) in
            begin.yield()
            try await Self.hang()
            return .of()
        }
        let exchange = try Sample.exchange(http)
        let task = Task { await failure { try await exchange.exchange(Sample.request()) } }
        for await _ in began { break }
        task.cancel()
        #expect(await task.value?.isCancelled == true)
    }
}
