#if AsyncHTTPClient && !canImport(Darwin)
    import NIOCore
    import NIOHTTP1

    /// Gives a connection up whose answer has a status below 100.
    ///
    /// Such an answer is none. The client takes its head for an informational one, and the end behind it ends the program
    /// (async-http-client 1.37, `HTTPRequestStateMachine`); so nothing of it may come that far.
    final class StatusGuard: ChannelInboundHandler {
        typealias InboundIn = HTTPClientResponsePart
        typealias InboundOut = HTTPClientResponsePart

        private var isSpoiled = false

        /// Puts one behind the decoder of a new connection.
        @Sendable static func install(on channel: any Channel) -> EventLoopFuture<Void> {
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                try pipeline.addHandler(StatusGuard(), position: .after(decoder))
            }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard !isSpoiled else { return }
            if case .head(let head) = unwrapInboundIn(data), head.status.code < 100 {
                isSpoiled = true
                context.fireErrorCaught(HTTPParserError.invalidStatus)
                context.close(promise: nil)
                return
            }
            context.fireChannelRead(data)
        }
    }
#endif
