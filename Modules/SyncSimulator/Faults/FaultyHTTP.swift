public import HTTPTypes
public import Transport
import Foundation

/// What happens to one HTTP request on its way.
public enum HTTPFault: Sendable, Hashable {
    /// It never gets there.
    case lostRequest
    /// The server carries it out, and nothing of its answer comes back.
    case lostAnswer
    /// It gets there twice; the second answer comes back.
    case sentTwice
    /// So many bytes of the answer's body come, then the connection breaks.
    case cut(after: Int)
    /// One bit of the answer's body is another: the one at this place, counted round and round.
    case flippedBit(Int)
    /// Something on the way answers with this status in place of the server, which sees nothing of it.
    case intercepted(status: Int)
}

/// A step around an HTTP client that does to its requests what a plan says: for tests of everything behind that seam,
/// with a real client or a fake one.
///
/// ```swift
/// let http = FaultyHTTP(client) { number in number == 2 ? .lostAnswer : nil }
/// ```
public final class FaultyHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: `count` and `struck` are used under `lock` alone.

    /// The fault of the request with this number, from 1 on; `nil` leaves it alone.
    public typealias Plan = @Sendable (_ number: Int) -> HTTPFault?

    private let client: any HTTPTransport
    private let plan: Plan
    private let lock = NSLock()
    private var count = 0
    private var struck: [HTTPFault] = []

    public init(_ client: any HTTPTransport, plan: @escaping Plan) {
        self.client = client
        self.plan = plan
    }

    /// How many requests there were.
    public var requestCount: Int { lock.withLock { count } }

    /// The faults so far, in their order: a test that never met one has shown nothing.
    public var faults: [HTTPFault] { lock.withLock { struck } }

    public func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        guard let fault = next() else { return try await client.send(request, body: body) }
        switch fault {
        case .lostRequest: throw HTTPFailure(.noConnection, "the request was lost")
        case .lostAnswer:
            try await finish(client.send(request, body: body))
            throw HTTPFailure(.interrupted, "the answer was lost")
        case .sentTwice:
            try await finish(client.send(request, body: body))
            return try await client.send(request, body: body)
        case .cut(let length): return Self.cut(try await client.send(request, body: body), after: length)
        case .flippedBit(let place):
            let answer = try await client.send(request, body: body)
            var bytes = try await finish(answer)
            if !bytes.isEmpty { bytes[place / 8 % bytes.count] ^= 1 << UInt8(place % 8) }
            return HTTPAnswer(head: answer.head, body: HTTPBody(bytes))
        case .intercepted(let status):
            var head = HTTPResponse(status: .init(code: status))
            head.headerFields[.contentType] = "text/html"
            return HTTPAnswer(head: head, body: HTTPBody(Array("<html>Accept our terms to go on</html>".utf8)))
        }
    }

    public func close() async { await client.close() }

    private func next() -> HTTPFault? {
        lock.withLock {
            count += 1
            guard let fault = plan(count) else { return nil }
            struck.append(fault)
            return fault
        }
    }

    @discardableResult
    private func finish(_ answer: HTTPAnswer) async throws(HTTPFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        while let piece = try await answer.body.next() { bytes += piece }
        return bytes
    }

    private static func cut(_ answer: HTTPAnswer, after length: Int) -> HTTPAnswer {
        let left = Left(length)
        let body = answer.body
        return HTTPAnswer(
            head: answer.head,
            body: HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                guard left.count > 0, let piece = try await body.next() else {
                    throw HTTPFailure(.interrupted, "the connection broke within the answer")
                }
                let part = Array(piece.prefix(left.count))
                left.count -= part.count
                return part
            })
    }

    /// Sendable because a body has one reader, who asks again only after an answer.
    private final class Left: @unchecked Sendable {
        var count: Int
        init(_ count: Int) { self.count = count }
    }
}
