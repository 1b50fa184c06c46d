public import SyncCore
import Foundation

/// The way to a server, on which requests and answers get lost: a step in front of any exchange, the model server first.
///
/// Each request takes the next act; without one it takes ``otherwise``. Requests are kept to be looked at. ``close()`` closes
/// this way alone: the server behind it may be others' as well.
///
/// ```swift
/// let way = LossyExchange(server)
/// way.next(.loseAnswer)  // done, and nobody hears of it: the next try is told a duplicate
/// ```
public final class LossyExchange: Exchange, @unchecked Sendable {
    // Sendable: `acts`, `usual`, `seen` and `isClosed` are used under `lock` alone.

    /// What becomes of one request.
    public enum Act: Sendable {
        case pass
        /// This comes in place of an answer; the server sees nothing.
        case fail(ExchangeFailure)
        /// The connection breaks before the server has read it.
        case loseRequest
        /// The server does it, and the connection breaks before its answer has come.
        case loseAnswer
        /// It gets there twice; the second answer comes back.
        case duplicate
        /// It stays on the way until ``LossyExchange/release()``, and fails if it is cancelled, or the way closed, before that.
        case hold
    }

    private let lock = NSLock()
    private let server: any Exchange
    private let held = Hold()
    private var acts: [Act] = []
    private var usual = Act.pass
    private var seen: [ExchangeRequest] = []
    private var isClosed = false

    public init(_ server: any Exchange) { self.server = server }

    /// What becomes of the next requests, one after the other; behind those that were said before.
    public func next(_ acts: Act...) { lock.withLock { self.acts += acts } }

    /// What becomes of requests that have no act of their own.
    public var otherwise: Act {
        get { lock.withLock { usual } }
        set { lock.withLock { usual = newValue } }
    }

    /// The requests that were sent, whatever became of them, in order.
    public var requests: [ExchangeRequest] { lock.withLock { seen } }

    /// Lets go what is held now.
    public func release() { held.release() }

    /// Waits until so many requests were held.
    public func waitForHeld(_ count: Int) async { await held.waitForArrivals(count) }

    public func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        let act = lock.withLock { () -> Act? in
            if isClosed { return nil }
            seen.append(request)
            return acts.isEmpty ? usual : acts.removeFirst()
        }
        switch act {
        case nil: throw .closed
        case .pass?: return try await server.exchange(request)
        case .fail(let failure)?: throw failure
        case .loseRequest?: throw ExchangeFailure(kind: .network, message: "the request was lost")
        case .loseAnswer?:
            _ = try await server.exchange(request)
            throw ExchangeFailure(
                kind: .network, message: "the answer was lost", reachedServer: true, isBrokenOff: true)
        case .duplicate?:
            _ = try await server.exchange(request)
            return try await server.exchange(request)
        case .hold?:
            await held.wait()
            if Task.isCancelled { throw .cancelled }
            if lock.withLock({ isClosed }) { throw .closed }
            return try await server.exchange(request)
        }
    }

    public func close() async {
        lock.withLock { isClosed = true }
        held.release()
    }
}

extension ExchangeFailure {
    /// The caller did not want any more.
    public static let cancelled = ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
    /// This side was closed before.
    public static let closed = ExchangeFailure(kind: .network, message: "the exchange is closed", isCancelled: true)
}
