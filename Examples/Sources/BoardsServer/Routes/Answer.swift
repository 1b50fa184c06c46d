internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOPosix
internal import SyncServer

/// An answer before it is dressed for the wire.
struct Answer: Sendable {
    var status: Int
    var fields: HTTPFields = [:]
    var body: [UInt8] = []
    /// What stands behind `body`, where it comes in two parts.
    var tail: ServerReply.Tail?
    /// Instead of `body`, for what goes on until somebody leaves.
    var stream: ResponseBody?
    /// Why it is a 503, for the log.
    var cause: String?

    init(status: Int, type: String, body: [UInt8]) {
        self.status = status
        self.body = body
        fields[.contentType] = type
    }

    /// The store's answer.
    init(_ reply: ServerReply) {
        status = reply.status
        body = reply.first
        tail = reply.tail
        cause = reply.cause
        for header in reply.headers {
            if let name = HTTPField.Name(header.name) { fields[name] = header.value }
        }
    }

    /// How many bytes its body has.
    var count: Int { body.count + (tail?.bytes.count ?? 0) }

    init(_ problem: Problem) {
        self.init(status: problem.status, type: Problem.contentType, body: problem.json)
        for header in problem.headers {
            if let name = HTTPField.Name(header.name) { fields[name] = header.value }
        }
    }
}

/// Makes answers ready for the wire: lengths, compression, nothing for a HEAD.
struct AnswerDresser: Sendable {
    /// Bodies below this many bytes are not worth compressing.
    static let leastCompressed = 1_024
    /// Bodies up to this many bytes are compressed where they are; larger ones by another thread.
    private static let compressedInPlace = 16 * 1_024

    func response(_ answer: Answer, to request: Request) async -> Response {
        let status = HTTPResponse.Status(code: answer.status)
        var fields = answer.fields
        if let stream = answer.stream { return Response(status: status, headers: fields, body: stream) }
        var packed: [UInt8]?
        if answer.count >= Self.leastCompressed {
            fields[.vary] = "Accept-Encoding"
            if AcceptedEncoding.takesGzip(request.headers[.acceptEncoding]) { packed = await compressed(answer) }
            if packed != nil { fields[.contentEncoding] = "gzip" }
        }
        let body = packed ?? Self.plain(answer.body, answer.tail)
        if request.method == .head || answer.status == 204 || answer.status == 304 {
            var response = Response(status: status, headers: fields)
            response.headers[.contentLength] = request.method == .head ? String(body.count) : nil
            return response
        }
        return Response(status: status, headers: fields, body: .init(byteBuffer: ByteBuffer(bytes: body)))
    }

    /// A body in one part.
    static func plain(_ first: [UInt8], _ tail: ServerReply.Tail?) -> [UInt8] {
        tail.map { first + $0.bytes } ?? first
    }

    /// A body whose end is packed already, or at once if it is short; nil where that is nothing for an event loop.
    static func packed(_ first: [UInt8], _ tail: ServerReply.Tail) -> [UInt8]? {
        tail.packed.map { Gzip.joined(first, $0, count: tail.bytes.count) }
    }

    private func compressed(_ answer: Answer) async -> [UInt8]? {
        if let tail = answer.tail, let packed = Self.packed(answer.body, tail) { return packed }
        guard answer.count > Self.compressedInPlace else { return Self.compressedNow(answer) }
        // A pool that has shut down compresses nothing; the answer goes out plain.
        return try? await NIOThreadPool.singleton.runIfActive { Self.compressedNow(answer) }
    }

    /// In two parts, where it has two: by which way an answer was made cannot be told from its bytes.
    private static func compressedNow(_ answer: Answer) -> [UInt8]? {
        guard let tail = answer.tail else { return Gzip.deflate(answer.body) }
        return Gzip.packedTail(tail.bytes).map { Gzip.joined(answer.body, $0, count: tail.bytes.count) }
    }
}
