internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import SyncServer

/// Answers a sync that brings nothing and finds nothing new where it comes in, at the connection: most syncs are such,
/// and a task, a stream of body parts and a change of types cost many times what they ask.
///
/// It says what ``ShellResponder`` would say, or nothing, and then that one does. From any event loop.
final class SyncShortcut: Sendable {
    /// A body of more bytes is no sync of nothing.
    static let mostBytes = 4_096

    private let backend: any SyncBackend
    private let book: TokenBook
    private let limiter: AccountLimiter
    private let vitals: ServerVitals
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let date: DateLine

    /// - Parameters:
    ///   - now: Nanoseconds of a clock that does not jump.
    ///   - date: What the `Date` field says.
    init(
        backend: any SyncBackend, book: TokenBook, limiter: AccountLimiter, vitals: ServerVitals, logger: Logger,
        now: @escaping @Sendable () -> Int64, date: DateLine
    ) {
        self.backend = backend
        self.book = book
        self.limiter = limiter
        self.vitals = vitals
        self.logger = logger
        self.now = now
        self.date = date
    }

    /// Whether a request looks as if it could be answered here: a plain `POST /api/sync` with a small body.
    static func mayTake(_ head: HTTPRequestHead) -> Bool {
        guard head.method == .POST, head.uri == "/api/sync", head.version == .http1_1 else { return false }
        var length: Int?
        var isJSON = false
        for (name, value) in head.headers {
            switch name.utf8.count {
            case 12 where name.lowercased() == "content-type":
                guard value == "application/json" else { return false }
                isJSON = true
            case 14 where name.lowercased() == "content-length":
                guard length == nil, let count = Int(value) else { return false }
                length = count
            case 6 where name.lowercased() == "expect", 7 where name.lowercased() == "upgrade",
                16 where name.lowercased() == "content-encoding", 17 where name.lowercased() == "transfer-encoding":
                return false
            default: continue
            }
        }
        guard isJSON, let length else { return false }
        return length > 0 && length <= mostBytes
    }

    /// The whole answer; nil where somebody else must look.
    func answer(_ head: HTTPRequestHead, _ body: [UInt8]) -> (head: HTTPResponseHead, body: [UInt8])? {
        let began = now()
        let authorizations = head.headers["authorization"]
        guard authorizations.count < 2, let account = book.account(authorization: authorizations.first),
            let reply = backend.syncAtOnce(account: account, body: body), reply.status == 200
        else { return nil }
        // Refused, it is refused in the usual way.
        do { try limiter.begin(account) } catch { return nil }
        var answer = HTTPResponseHead(version: .http1_1, status: .ok)
        answer.headers.reserveCapacity(6)
        for header in reply.headers { answer.headers.add(name: header.name, value: header.value) }
        let bytes = dressed(reply, head, &answer)
        answer.headers.add(name: "Content-Length", value: String(bytes.count))
        answer.headers.add(name: "Date", value: date.text)
        let seconds = Double(now() - began) / 1e9
        vitals.count(.sync, status: 200, seconds: seconds)
        logger.answered("POST", .sync, status: 200, seconds: seconds, bytes: reply.count)
        return (answer, bytes)
    }

    /// The body as ``AnswerDresser`` would send it; a page comes here only once it is packed.
    private func dressed(
        _ reply: ServerReply, _ request: HTTPRequestHead, _ answer: inout HTTPResponseHead
    ) -> [UInt8] {
        guard reply.count >= AnswerDresser.leastCompressed else { return reply.body }
        answer.headers.add(name: "Vary", value: "Accept-Encoding")
        let accepted = request.headers["accept-encoding"]
        guard AcceptedEncoding.takesGzip(accepted.isEmpty ? nil : accepted.joined(separator: ",")),
            let tail = reply.tail, let packed = AnswerDresser.packed(reply.first, tail)
        else { return reply.body }
        answer.headers.add(name: "Content-Encoding", value: "gzip")
        return packed
    }
}
