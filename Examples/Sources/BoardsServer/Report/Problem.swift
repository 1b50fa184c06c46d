internal import SyncCore

/// An error as the contract tells it: `application/problem+json` with a `code` (PROTOCOL.md, section 4).
struct Problem: Error, Equatable {
    static let contentType = "application/problem+json"

    let status: Int
    let code: String
    let detail: String
    /// Further header fields: `Allow`, `Retry-After`, `WWW-Authenticate`.
    var headers: [(name: String, value: String)] = []

    static func == (one: Self, other: Self) -> Bool {
        one.status == other.status && one.code == other.code && one.detail == other.detail
    }

    /// The problem's JSON.
    var json: [UInt8] {
        var writer = JSONWriter(capacity: 128)
        writer.beginObject()
        writer.key("type")
        writer.string("about:blank")
        writer.key("title")
        writer.string(detail)
        writer.key("status")
        writer.int(Int64(status))
        writer.key("code")
        writer.string(code)
        writer.endObject()
        return writer.bytes
    }

    static func malformed(_ detail: String) -> Self { Self(status: 400, code: "malformed", detail: detail) }
    static let unauthorized = Self(
        status: 401, code: "unauthorized", detail: "A token that this server knows is needed.",
        headers: [("WWW-Authenticate", "Bearer")])
    static let notFound = Self(status: 404, code: "notFound", detail: "There is nothing here.")
    static func methodNotAllowed(_ allowed: String) -> Self {
        Self(status: 405, code: "methodNotAllowed", detail: "Only \(allowed) here.", headers: [("Allow", allowed)])
    }
    static let timeout = Self(status: 408, code: "timeout", detail: "The request did not arrive in time.")
    static func tooLarge(_ limit: Int) -> Self {
        Self(status: 413, code: "tooLarge", detail: "A body may have \(limit) bytes, inflated.")
    }
    static func unsupportedMediaType(_ detail: String) -> Self {
        Self(status: 415, code: "unsupportedMediaType", detail: detail)
    }
    static func rateLimited(retryAfter: Int) -> Self {
        Self(
            status: 429, code: "rateLimited", detail: "Too many requests of this account.",
            headers: [("Retry-After", String(retryAfter))])
    }
    static func unavailable(_ detail: String, retryAfter: Int = 1) -> Self {
        Self(status: 503, code: "unavailable", detail: detail, headers: [("Retry-After", String(retryAfter))])
    }

    init(status: Int, code: String, detail: String, headers: [(name: String, value: String)] = []) {
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers
    }

    /// What a connection that cannot go on is told.
    init(_ refusal: ConnectionPhase.Refusal) {
        switch refusal {
        case .malformed: self = .malformed("This is not a complete HTTP/1.1 request.")
        case .headTooLarge:
            self.init(status: 431, code: "tooLarge", detail: "The request line and header fields are too large.")
        case .timeout: self = .timeout
        case .method(let allowed): self = .methodNotAllowed(allowed.joined(separator: ", "))
        }
    }
}
