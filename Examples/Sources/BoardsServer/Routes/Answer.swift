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
    /// Instead of `body`, for what goes on until somebody leaves.
    var stream: ResponseBody?

    init(status: Int, type: String, body: [UInt8]) {
        self.status = status
        self.body = body
        fields[.contentType] = type
    }

    /// The store's answer.
    init(_ reply: ServerReply) {
        status = reply.status
        body = reply.body
        for header in reply.headers {
            if let name = HTTPField.Name(header.name) { fields[name] = header.value }
        }
    }

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
        var body = answer.body
        if body.count >= Self.leastCompressed {
            fields[.vary] = "Accept-Encoding"
            if AcceptedEncoding.takesGzip(request.headers[.acceptEncoding]), let smaller = await compressed(body) {
                body = smaller
                fields[.contentEncoding] = "gzip"
            }
        }
        if request.method == .head || answer.status == 204 || answer.status == 304 {
            var response = Response(status: status, headers: fields)
            response.headers[.contentLength] = request.method == .head ? String(body.count) : nil
            return response
        }
        return Response(status: status, headers: fields, body: .init(byteBuffer: ByteBuffer(bytes: body)))
    }

    private func compressed(_ body: [UInt8]) async -> [UInt8]? {
        guard body.count > Self.compressedInPlace else { return Gzip.deflate(body) }
        // A pool that has shut down compresses nothing; the answer goes out plain.
        return try? await NIOThreadPool.singleton.runIfActive { Gzip.deflate(body) }
    }
}
