internal import SyncCore

/// An error as the contract tells it: a status, and `application/problem+json` with a `code` (RFC 9457).
struct Problem: Error, Sendable, Hashable {
    var status: Int
    var code: String
    var detail: String
    /// More members, each a name and a whole JSON value.
    var members: [Member] = []
    var headers: [ServerReply.Header] = []

    struct Member: Sendable, Hashable {
        var name: String
        var json: [UInt8]
    }

    static func malformed(_ detail: String) -> Problem { Problem(status: 400, code: "malformed", detail: detail) }
    static func tooLarge(_ detail: String) -> Problem { Problem(status: 413, code: "tooLarge", detail: detail) }
    /// Decided, the request's changes would have more said of them than an answer holds. Nothing of it is done.
    static func tooManyVerdictBytes(_ most: Int) -> Problem {
        tooLarge("the verdicts would take more than \(most) bytes; fewer changes at once")
    }
    /// Decided, the request's changes would give new versions to more records than one turn may take. Nothing of it is done.
    static func tooMuchFollows(_ most: Int) -> Problem {
        tooLarge("the changes would pass on to more than \(most) records; fewer changes at once")
    }
    static let notFound = Problem(status: 404, code: "notFound", detail: "there is nothing here")

    func with(_ name: String, _ text: String) -> Problem {
        var writer = JSONWriter()
        writer.string(text)
        return with(name, json: writer.bytes)
    }

    func with(_ name: String, _ number: Int64) -> Problem { with(name, json: Array("\(number)".utf8)) }

    func with(_ name: String, json: [UInt8]) -> Problem {
        var copy = self
        copy.members.append(Member(name: name, json: json))
        return copy
    }

    var reply: ServerReply {
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
        for member in members {
            writer.key(member.name)
            writer.raw(member.json)
        }
        writer.endObject()
        return ServerReply(
            status: status, headers: [.init("Content-Type", "application/problem+json")] + headers, body: writer.bytes)
    }
}
