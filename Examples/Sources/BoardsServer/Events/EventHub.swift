internal import NIOCore
internal import NIOHTTP1
internal import SyncCore
internal import SyncServer

/// Tells commits to the event streams of their account (PROTOCOL.md, section 3).
///
/// A stream has no task and no queue of its own: it is an entry at its event loop, written to from there. Whoever does
/// not read is dropped as soon as more waits for it than `EventLimits.heldBytes`; nothing is piled up. Commits that
/// come faster than a loop turns are told as one: the newest version, with all of their scopes.
final class EventHub: Sendable {
    private let loops: [ObjectIdentifier: NIOLoopBound<LoopStreams>]
    private let order: [NIOLoopBound<LoopStreams>]

    init(group: any EventLoopGroup, limits: EventLimits, vitals: ServerVitals) async throws {
        var loops: [ObjectIdentifier: NIOLoopBound<LoopStreams>] = [:]
        for loop in group.makeIterator() {
            loops[ObjectIdentifier(loop)] = try await loop.submit {
                let streams = LoopStreams(loop: loop, limits: limits, vitals: vitals)
                streams.beginHeartbeat()
                return NIOLoopBound(streams, eventLoop: loop)
            }.get()
        }
        self.loops = loops
        order = Array(loops.values)
    }

    /// A commit: told to all streams of the account. From any thread.
    func announce(account: String, version: Int64, scopes: [String]) {
        for bound in order {
            bound.eventLoop.execute { bound.value.announce(account: account, version: version, scopes: scopes) }
        }
    }

    /// Puts a channel whose answer has begun among the streams; it leaves when it closes.
    func add(_ channel: any Channel, account: String, authorization: String?) async throws {
        guard let bound = loops[ObjectIdentifier(channel.eventLoop)] else { return }
        try await channel.eventLoop.submit {
            try bound.value.add(channel, account: account, authorization: authorization)
        }.get()
    }

    /// The present version, for a stream that has seen less; unless a commit was quicker.
    func catchUp(_ channel: any Channel, account: String, version: Int64) async throws {
        guard let bound = loops[ObjectIdentifier(channel.eventLoop)] else { return }
        try await channel.eventLoop.submit { bound.value.catchUp(channel, account: account, version: version) }.get()
    }

    /// Closes the streams whose authorization no longer stands for their account.
    func closeStreams(unless stands: @escaping @Sendable (_ authorization: String?, _ account: String) -> Bool) {
        for bound in order { bound.eventLoop.execute { bound.value.closeStreams(unless: stands) } }
    }

    /// Ends the heartbeats; the streams themselves end with their channels.
    func stop() async throws {
        for bound in order { try await bound.eventLoop.submit { bound.value.endHeartbeat() }.get() }
    }
}

/// The event streams of one event loop. Confined to it.
private final class LoopStreams {
    private final class Stream {
        let channel: any Channel
        /// The guard's: what is written there goes straight to the HTTP encoder.
        let context: ChannelHandlerContext
        let authorization: String?
        var lastVersion: Int64 = -1

        init(channel: any Channel, context: ChannelHandlerContext, authorization: String?) {
            self.channel = channel
            self.context = context
            self.authorization = authorization
        }
    }

    /// The streams of an account: found by their channel, told in the order in which they came.
    private struct OrderedStreams {
        private var places: [ObjectIdentifier: Int] = [:]
        private var entries: [(id: ObjectIdentifier, stream: Stream)?] = []

        var isEmpty: Bool { places.isEmpty }
        var all: [Stream] { entries.compactMap { $0?.stream } }

        mutating func add(_ id: ObjectIdentifier, _ stream: Stream) {
            places[id] = entries.count
            entries.append((id, stream))
        }

        mutating func remove(_ id: ObjectIdentifier) -> Bool {
            guard let place = places.removeValue(forKey: id) else { return false }
            entries[place] = nil
            if entries.count > 16, entries.count > 2 * places.count { close() }
            return true
        }

        /// Closes the gaps that those who left made.
        private mutating func close() {
            entries.removeAll { $0 == nil }
            for (place, entry) in entries.enumerated() { if let entry { places[entry.id] = place } }
        }

        subscript(id: ObjectIdentifier) -> Stream? { places[id].flatMap { entries[$0]?.stream } }
    }

    private struct News {
        var version: Int64
        var scopes: Set<String>
        /// Whether one of the notices named no scopes, which says all.
        var namesAll: Bool
    }

    private let loop: any EventLoop
    private let limits: EventLimits
    private let vitals: ServerVitals
    /// Of each account, in the order in which they came.
    private var streams: [String: OrderedStreams] = [:]
    private var news: [String: News] = [:]
    private var heartbeat: RepeatedTask?

    init(loop: any EventLoop, limits: EventLimits, vitals: ServerVitals) {
        self.loop = loop
        self.limits = limits
        self.vitals = vitals
    }

    func beginHeartbeat() {
        let every = TimeAmount.nanoseconds(ConnectionPhase.nanoseconds(limits.heartbeat))
        let bound = NIOLoopBound(self, eventLoop: loop)
        heartbeat = loop.scheduleRepeatedTask(initialDelay: every, delay: every) { _ in bound.value.beat() }
    }

    func endHeartbeat() {
        heartbeat?.cancel()
        heartbeat = nil
    }

    func add(_ channel: any Channel, account: String, authorization: String?) throws {
        guard channel.isActive else { return }
        let context = try channel.pipeline.syncOperations.context(handlerType: ConnectionGuard.self)
        (context.handler as? ConnectionGuard)?.beginStream()
        try channel.syncOptions?.setOption(
            .writeBufferWaterMark, value: .init(low: limits.heldBytes / 2, high: limits.heldBytes))
        try channel.syncOptions?.setOption(.socketOption(.so_sndbuf), value: limits.heldBytes)
        let id = ObjectIdentifier(channel)
        streams[account, default: OrderedStreams()]
            .add(id, Stream(channel: channel, context: context, authorization: authorization))
        vitals.streamOpened()
        let bound = NIOLoopBound(self, eventLoop: loop)
        channel.closeFuture.whenComplete { _ in bound.value.remove(id, account: account) }
        write(": here\n\n", to: context)
    }

    private func remove(_ id: ObjectIdentifier, account: String) {
        guard streams[account]?.remove(id) == true else { return }
        if streams[account]?.isEmpty == true { streams[account] = nil }
        vitals.streamClosed()
    }

    func announce(account: String, version: Int64, scopes: [String]) {
        guard streams[account] != nil else { return }
        guard news[account] == nil else {
            news[account]?.version = version
            news[account]?.scopes.formUnion(scopes)
            if scopes.isEmpty { news[account]?.namesAll = true }
            return
        }
        news[account] = News(version: version, scopes: Set(scopes), namesAll: scopes.isEmpty)
        let bound = NIOLoopBound(self, eventLoop: loop)
        loop.execute { bound.value.deliver(account) }
    }

    private func deliver(_ account: String) {
        guard let news = news.removeValue(forKey: account) else { return }
        // Too many to name: none, which says all.
        let scopes = news.namesAll || news.scopes.count > CommitNotice.mostScopes ? [] : news.scopes.sorted()
        let event = Self.event(version: news.version, scopes: scopes)
        // A copy: whoever is dropped leaves the list meanwhile.
        for stream in streams[account]?.all ?? [] where stream.lastVersion < news.version {
            stream.lastVersion = news.version
            send(event, to: stream)
        }
    }

    func catchUp(_ channel: any Channel, account: String, version: Int64) {
        guard let stream = streams[account]?[ObjectIdentifier(channel)], stream.lastVersion < version else { return }
        stream.lastVersion = version
        send(Self.event(version: version, scopes: []), to: stream)
    }

    func closeStreams(unless stands: (_ authorization: String?, _ account: String) -> Bool) {
        for (account, streams) in streams.sorted(by: { $0.key < $1.key }) {
            for stream in streams.all where !stands(stream.authorization, account) {
                stream.channel.close(promise: nil)
            }
        }
    }

    private func beat() {
        let comment = ByteBuffer(string: ": still here\n\n")
        for (_, streams) in streams.sorted(by: { $0.key < $1.key }) {
            for stream in streams.all { pass(comment, to: stream) }
        }
    }

    private func send(_ event: ByteBuffer, to stream: Stream) {
        if pass(event, to: stream) { vitals.eventSent() }
    }

    /// Whether the reader still takes what it is sent; one that does not is dropped.
    @discardableResult
    private func pass(_ bytes: ByteBuffer, to stream: Stream) -> Bool {
        guard stream.channel.isActive else { return false }
        guard stream.channel.isWritable else {
            vitals.streamDropped()
            stream.channel.close(promise: nil)
            return false
        }
        write(bytes, to: stream.context)
        return true
    }

    private func write(_ bytes: ByteBuffer, to context: ChannelHandlerContext) {
        context.writeAndFlush(
            NIOAny(HTTPServerResponsePart.body(.byteBuffer(bytes))), promise: nil)
    }

    private func write(_ text: String, to context: ChannelHandlerContext) {
        write(ByteBuffer(string: text), to: context)
    }

    private static func event(version: Int64, scopes: some Sequence<String>) -> ByteBuffer {
        var json = JSONWriter(capacity: 96)
        json.beginObject()
        json.key("currentSyncVersion")
        json.int(version)
        json.key("scopes")
        json.beginArray()
        for scope in scopes { json.string(scope) }
        json.endArray()
        json.endObject()
        var buffer = ByteBuffer(string: "id: \(version)\ndata: ")
        buffer.writeBytes(json.bytes)
        buffer.writeStaticString("\n\n")
        return buffer
    }
}
