import Foundation
import HTTPTypes
import Synchronization
import Transport

/// Counts the requests and the bytes of the bodies, both ways, that pass through it.
final class CountingTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let counted = Mutex((requests: 0, bytes: 0))

    init(_ base: any HTTPTransport) { self.base = base }

    func counts() -> (requests: Int, bytes: Int) { counted.withLock { $0 } }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        count(requests: 1, bytes: body.count)
        let answer = try await base.send(request, body: body)
        let pieces = answer.body
        return HTTPAnswer(
            head: answer.head,
            body: HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                let piece = try await pieces.next()
                self.count(requests: 0, bytes: piece?.count ?? 0)
                return piece
            })
    }

    func close() async { await base.close() }

    private func count(requests: Int, bytes: Int) {
        counted.withLock {
            $0.requests += requests
            $0.bytes += bytes
        }
    }
}
