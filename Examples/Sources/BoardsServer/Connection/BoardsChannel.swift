internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1

/// An HTTP/1 connection as Hummingbird serves it, with ``ConnectionGuard`` in its pipeline, and its tasks on its own
/// event loop: a request costs no change of threads but the one to the store.
struct BoardsChannel: HTTPChannelHandler {
    typealias Value = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>

    let responder: HTTPChannelHandler.Responder
    let limits: ConnectionLimits
    let vitals: ServerVitals
    let executors: LoopExecutors
    let shortcut: SyncShortcut

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            var decoding = NIOHTTPDecoderLimitConfiguration()
            decoding.maxHeaderFieldSize = limits.headerBytes
            decoding.maxHeaderListSize = limits.headerBytes
            decoding.maxHeaderFieldCount = limits.headerFields
            let connection = ConnectionGuard(
                limits: limits, vitals: vitals, shortcut: shortcut, now: channel.eventLoop.now)
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandlers([
                ByteWatcher(connection),
                HTTPResponseEncoder(),
                ByteToMessageHandler(HTTPRequestDecoder(limitConfiguration: decoding)),
                connection,
                HTTP1ToHTTPServerCodec(secure: false),
            ])
            vitals.connectionOpened()
            channel.closeFuture.whenComplete { [vitals] _ in vitals.connectionClosed() }
            return try NIOAsyncChannel(
                wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
        }
    }

    func handle(value: Value, logger: Logger) async {
        await withTaskExecutorPreference(executors[value.channel.eventLoop]) {
            await handleHTTP(asyncChannel: value, logger: logger)
        }
    }
}
