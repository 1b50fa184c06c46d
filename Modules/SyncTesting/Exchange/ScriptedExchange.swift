public import SyncCore
import Foundation

/// An exchange that plays a script: each request gets the next line's answer, and is kept to be looked at.
public final class ScriptedExchange: Exchange, @unchecked Sendable {
    // Sendable: `lines`, `seen` and `isClosed` are used under `lock` alone; answers are made outside it.

    /// What becomes of one request.
    public enum Line: Sendable {
        /// An answer, or a failure, made for the request.
        case answer(@Sendable (ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer)
        /// This failure.
        case failure(ExchangeFailure)
    }

    private let lock = NSLock()
    private var lines: [Line]
    private var seen: [ExchangeRequest] = []
    private var isClosed = false
    private let otherwise: Line

    /// - Parameter otherwise: what requests get after the last line; a network failure, if nothing else is said.
    public init(_ lines: [Line] = [], otherwise: Line = .failure(.unreachable)) {
        self.lines = lines
        self.otherwise = otherwise
    }

    /// The requests that came, in order.
    public var requests: [ExchangeRequest] { lock.withLock { seen } }

    /// Lines that were not played yet.
    public var remaining: Int { lock.withLock { lines.count } }

    /// Puts lines at the end.
    public func append(_ more: [Line]) { lock.withLock { lines += more } }

    public func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        let line = lock.withLock { () -> Line? in
            seen.append(request)
            if isClosed { return nil }
            return lines.isEmpty ? otherwise : lines.removeFirst()
        }
        switch line {
        case .answer(let make)?: return try await make(request)
        case .failure(let failure)?: throw failure
        case nil: throw .closed
        }
    }

    public func close() async { lock.withLock { isClosed = true } }
}

extension ExchangeFailure {
    /// No connection at all.
    public static let unreachable = ExchangeFailure(kind: .network, message: "no connection")

    /// The answer that PROTOCOL.md's section 4 makes of a status without a body of the contract.
    public static func status(_ status: Int, code: String? = nil, retryAfter: Double? = nil) -> ExchangeFailure {
        let kind: FailureClass =
            switch status {
            case 408, 425, 429, 499, 502, 503, 504, 520...526, 530: .temporary
            case 511: .network
            case 500...599: .temporaryLonger
            case 401: .authentication
            case 413: .tooLarge
            case 410: .history
            case 409 where code == "otherDataset": .history
            case 400..<500: .unknown
            default: .network
            }
        return ExchangeFailure(
            kind: kind, status: status, code: code, message: "status \(status)", retryAfterSeconds: retryAfter,
            reachedServer: kind != .network)
    }
}
