import NIOCore
import NIOPosix

/// Passes all that comes on to a stream, which ends with the connection's input.
private final class Collector: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let pieces: AsyncStream<ByteBuffer>.Continuation

    init(_ pieces: AsyncStream<ByteBuffer>.Continuation) { self.pieces = pieces }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { pieces.yield(unwrapInboundIn(data)) }
    func channelInactive(context: ChannelHandlerContext) { pieces.finish() }
    /// A reset counts as an end.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { pieces.finish() }
    }
}

/// A TCP connection that says exactly what it is told, for what no HTTP client would send.
struct RawConnection {
    private let channel: any Channel
    private var pieces: AsyncStream<ByteBuffer>.Iterator
    /// What came and was not taken yet.
    private(set) var held = ""

    static func open(
        _ port: Int, isReading: Bool = true, _ body: (inout RawConnection) async throws -> Void
    ) async throws {
        let (pieces, continuation) = AsyncStream<ByteBuffer>.makeStream()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.autoRead, value: isReading)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Collector(continuation))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        defer { channel.close(promise: nil) }
        var connection = RawConnection(channel: channel, pieces: pieces.makeAsyncIterator())
        try await body(&connection)
    }

    /// One connection that sends `text` and gives all that comes until the server ends it.
    static func say(_ text: String, to port: Int, halfClose: Bool = false) async throws -> String {
        var answer = ""
        try await open(port) { connection in
            try await connection.send(text)
            if halfClose { connection.finish() }
            answer = try await connection.rest()
        }
        return answer
    }

    func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    /// A connection that the server has ended takes nothing more; what it said is still to be read.
    func send(_ bytes: [UInt8]) async throws {
        do {
            try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
        } catch is IOError {} catch is ChannelError {}
    }

    /// Nothing more will be sent.
    func finish() { channel.close(mode: .output, promise: nil) }

    /// All until the server ends the connection; a reset counts as an end.
    mutating func rest() async throws -> String {
        while let piece = await pieces.next(isolation: #isolation) { held += String(buffer: piece) }
        defer { held = "" }
        return held
    }

    /// The text up to and with `end`; nil when the connection ends before.
    mutating func until(_ end: String) async throws -> String? {
        while true {
            if let range = held.firstRange(of: end) {
                let text = String(held[..<range.upperBound])
                held.removeSubrange(..<range.upperBound)
                return text
            }
            guard let piece = await pieces.next(isolation: #isolation) else { return nil }
            held += String(buffer: piece)
        }
    }

    /// One answer with a length: its status line and fields, and its body.
    mutating func answer() async throws -> (head: String, body: String)? {
        guard let head = try await until("\r\n\r\n") else { return nil }
        let length =
            head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
            .flatMap { Int($0.split(separator: ":")[1].drop { $0 == " " }) } ?? 0
        while held.utf8.count < length {
            guard let piece = await pieces.next(isolation: #isolation) else { return (head, held) }
            held += String(buffer: piece)
        }
        let body = String(decoding: held.utf8.prefix(length), as: UTF8.self)
        held = String(decoding: held.utf8.dropFirst(length), as: UTF8.self)
        return (head, body)
    }
}

extension String {
    /// A POST to `/api/sync`, ready for the wire.
    static func post(_ body: String, fields: [String] = ["Content-Type: application/json"]) -> String {
        let all = ["POST /api/sync HTTP/1.1", "Host: localhost"] + fields + ["Content-Length: \(body.utf8.count)"]
        return all.joined(separator: "\r\n") + "\r\n\r\n" + body
    }
}
