import HTTPTypes
import SyncCore

/// One request with its body whole, on its way through the callers.
struct Call: Sendable {
    var request: HTTPRequest
    var body: [UInt8] = []
    /// The body compressed already, if it was.
    var packed: [UInt8]?
    /// What ties log lines, the server's log and failures together.
    var id: String
}

/// An answer with its body whole.
struct Answer: Sendable {
    var head: HTTPResponse
    /// As the head says, in lower case and without parameters.
    var mediaType: String?
    var body: AnswerBody
    /// Bytes of the bodies as they were on the wire, of all the requests that it took.
    var bytesSent: Int
    var bytesReceived: Int

    var status: Int { head.status.code }

    /// The error that the answer tells in the contract's shape, if it tells one.
    func problem(codeMember: String? = nil) -> Problem? {
        (200...299).contains(status) ? nil : Problem(body, mediaType: mediaType, codeMember: codeMember)
    }
}

/// One step on a request's way: each wraps the next and does one thing (``CallStack`` composes them).
protocol Caller: Sendable {
    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer
}
