import Foundation
import HTTPTypes
import SyncCore
import SyncServer
import Transport

/// An HTTP client whose server is a function, and that can spoil what comes back.
final class InProcessHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let serve: (HTTPRequest, [UInt8]) -> (reply: ServerReply, leaves: Bool)
    /// A request is on its way; another one at the same time takes another connection.
    var isBusy = false
    /// What becomes of the next answer.
    var fault: FaultTape.WireFault?
    private var last: ServerReply?
    /// Whose token is looked at; `nil` looks at none.
    var tokens: DeviceTokens?
    /// A status that something on the way says in the server's place, with nothing else.
    var status: (code: Int, retryAfter: Double?)?
    /// The request that is on its way, and who hears what the server said to it.
    var asked: ExchangeRequest?
    var onReply: (_ asked: ExchangeRequest, HTTPRequest, ServerReply) -> Void = { _, _, _ in }

    init(serve: @escaping (HTTPRequest, [UInt8]) -> (reply: ServerReply, leaves: Bool)) { self.serve = serve }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        // This server takes plain bodies only, as a small one would.
        guard request.headerFields[.contentEncoding] == nil else {
            return Self.answer(ServerReply(status: 415))
        }
        if let tokens, !tokens.isValid(request.headerFields[.authorization]) {
            return Self.answer(ServerReply(status: 401))
        }
        if let status {
            let headers = status.retryAfter.map { [ServerReply.Header("Retry-After", "\(Int($0))")] } ?? []
            return Self.answer(ServerReply(status: status.code, headers: headers))
        }
        let (reply, leaves) = serve(request, body)
        let isDone = (200..<300).contains(reply.status)
        if isDone, let asked { onReply(asked, request, reply) }
        guard leaves else {
            fault = nil
            throw HTTPFailure(.interrupted, "the server died")
        }
        let earlier = last
        if isDone { last = reply }
        defer { fault = nil }
        guard let fault, isDone else { return Self.answer(reply) }
        return Self.answer(
            request.isBatch ? Self.spoilt(reply, fault, earlier: earlier) : Self.spoilt(single: reply, fault))
    }

    private static func spoilt(_ reply: ServerReply, _ fault: FaultTape.WireFault, earlier: ServerReply?) -> ServerReply
    {
        var reply = reply
        switch fault {
        case .truncated: reply.body = Array(reply.body.prefix(reply.body.count * 2 / 3))
        case .captivePortal: reply = portal
        case .wrongContentType: reply.headers = [.init("Content-Type", "text/plain")]
        case .staleAnswer: reply = earlier ?? ServerReply(status: 204)
        case .contradiction: reply.body = contradicted(reply.body) ?? miscounted(reply.body)
        case .wrongCount: reply.body = miscounted(reply.body)
        }
        return reply
    }

    /// The answer to one change has no verdicts that could be counted, and says nothing of which request it answers; one without a body can
    /// only be another one.
    private static func spoilt(single reply: ServerReply, _ fault: FaultTape.WireFault) -> ServerReply {
        guard !reply.body.isEmpty else { return portal }
        var reply = reply
        switch fault {
        case .truncated, .contradiction, .wrongCount: reply.body = Array(reply.body.prefix(reply.body.count * 2 / 3))
        case .captivePortal, .staleAnswer: reply = portal
        case .wrongContentType: reply.headers = [.init("Content-Type", "text/plain")]
        }
        return reply
    }

    private static let portal = ServerReply(
        status: 200, headers: [.init("Content-Type", "text/html")], body: Array("<html>Sign in</html>".utf8))

    func close() async {}

    private static func miscounted(_ body: [UInt8]) -> [UInt8] {
        Array(
            String(decoding: body, as: UTF8.self).replacingOccurrences(
                of: "\"count\":", with: "\"count\":1"
            ).utf8)
    }

    /// With a second, other verdict for the first change; `nil` where there is none.
    private static func contradicted(_ body: [UInt8]) -> [UInt8]? {
        let text = String(decoding: body, as: UTF8.self)
        let parts = text.components(separatedBy: "\"results\":[{\"changeID\":\"")
        guard parts.count == 2, let key = parts[1].split(separator: "\"").first else { return nil }
        let other =
            "{\"changeID\":\"\(key)\",\"verdict\":\"rejected\",\"error\":{\"code\":\"expired\",\"message\":\"\"}},"
        return Array((parts[0] + "\"results\":[" + other + "{\"changeID\":\"" + parts[1]).utf8)
    }

    private static func answer(_ reply: ServerReply) -> HTTPAnswer {
        var head = HTTPResponse(status: .init(code: reply.status))
        for header in reply.headers {
            if let name = HTTPField.Name(header.name) { head.headerFields[name] = header.value }
        }
        return HTTPAnswer(head: head, body: HTTPBody(reply.body))
    }
}

extension HTTPRequest {
    /// Whether it is one of the batch dialect.
    var isBatch: Bool { path == "/api/sync" }
}
