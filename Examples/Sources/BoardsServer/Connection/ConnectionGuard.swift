internal import NIOCore
internal import NIOHTTP1

/// That a request broke off before it was complete; whoever reads its body is told so and must not use what came.
struct RequestAborted: Error {}

/// Keeps one HTTP/1 connection in order: one request at a time, deadlines, limits, refusals in the contract's words,
/// and an end that lets the last answer arrive.
///
/// It stands between the HTTP codec and everything that answers. Pipelined requests wait here, and the socket is not
/// read meanwhile. What it decides is ``ConnectionPhase``'s. Confined to its channel's event loop.
final class ConnectionGuard: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// What came while an answer was in the making.
    private enum Waiting {
        case part(HTTPServerRequestPart)
        case garbage(any Error)
        case inputClosed
    }

    private let vitals: ServerVitals
    private let shortcut: SyncShortcut
    private var phase: ConnectionPhase
    private var waiting = CircularBuffer<Waiting>(initialCapacity: 0)
    private var isReadWanted = false
    private var version = HTTPVersion.http1_1
    /// Whether the guard has answered by itself: what the handlers behind it still write is dropped.
    private var hasRefused = false
    /// An answer that waits for the end of its request.
    private var heldAnswer: [(part: HTTPServerResponsePart, promise: EventLoopPromise<Void>?)] = []
    /// A small sync that is kept here until it is whole: it may be answered without anybody behind.
    private var small: (head: HTTPRequestHead, body: ByteBuffer?)?
    /// Its bytes, as long as they count as held.
    private var smallBytes = 0
    /// How many bytes of body the present request spoke of.
    private var declaredBytes = 0
    private var isClosing = false
    private var isGoingOn = false
    private var timer: (due: Int64, task: Scheduled<Void>)?
    private var bytesLeft = 0
    /// What is being parsed; nothing is kept of it.
    private var arriving: ByteBuffer?

    init(limits: ConnectionLimits, vitals: ServerVitals, shortcut: SyncShortcut, now: NIODeadline) {
        self.vitals = vitals
        self.shortcut = shortcut
        phase = ConnectionPhase(limits: limits, now: Int64(now.uptimeNanoseconds))
    }

    // MARK: Coming and going

    func handlerAdded(context: ChannelHandlerContext) { setTimer(context) }

    func channelActive(context: ChannelHandlerContext) {
        setTimer(context)
        context.fireChannelActive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.task.cancel()
        timer = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.task.cancel()
        timer = nil
        forgetSmall()
        waiting.removeAll()
        if isReceiving, !hasRefused { context.fireErrorCaught(RequestAborted()) }
        for (_, promise) in heldAnswer { promise?.fail(ChannelError.ioOnClosedChannel) }
        heldAnswer = []
        context.fireChannelInactive()
    }

    /// Raw bytes came; told by ``ByteWatcher``, which has them parsed by `parse`.
    func sawBytes(_ bytes: ByteBuffer, context: ChannelHandlerContext, parse: () -> Void) {
        phase.bytes(bytes.readableBytes, now: now(context))
        arriving = bytes
        parse()
        arriving = nil
    }

    /// The present answer goes on until somebody leaves: an event stream.
    func beginStream() { phase.stream() }

    // MARK: What comes in

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if isBusy { waiting.append(.part(part)) } else { take(part, context: context) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        perform(phase.parsed(now: now(context)), context: context)
        setTimer(context)
        context.fireChannelReadComplete()
        readOn(context)
    }

    /// What nobody behind wants any more is read all the same: a client that is still sending would not see its answer.
    private func readOn(_ context: ChannelHandlerContext) {
        switch phase.phase {
        case .refusing, .draining: context.read()
        case .waiting, .receiving, .answering, .closing: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if isBusy {
            waiting.append(.garbage(error))
        } else if let error = error as? HTTPParserError {
            let methods = error == .invalidMethod ? arriving.flatMap(RequestWords.methods(insteadOfUnknown:)) : nil
            perform(phase.garbage(methods: methods, now: now(context)), context: context)
        } else {
            perform(.drop, context: context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent:
            perform(phase.quiesce(now: now(context)), context: context)
            setTimer(context)
        case ChannelEvent.inputClosed:
            if isBusy, !waiting.isEmpty {
                waiting.append(.inputClosed)
            } else {
                closeInput(context)
            }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func read(context: ChannelHandlerContext) {
        if phase.phase == .answering { isReadWanted = true } else { context.read() }
    }

    private var isBusy: Bool { phase.phase == .answering || !waiting.isEmpty }

    private func take(_ part: HTTPServerRequestPart, context: ChannelHandlerContext) {
        switch part {
        case .head(let head):
            guard case .waiting = phase.phase else { return }
            version = head.version
            guard Self.namesOneHost(head), Self.isShort(head) else {
                return perform(phase.garbage(now: now(context)), context: context)
            }
            declaredBytes = head.headers.first(name: "content-length").flatMap(RequestWords.length) ?? 0
            // After an upgrade that nobody takes, the parser reads no further request.
            let isUpgrade = head.headers.contains(name: "upgrade")
            phase.head(isKept: head.isKeepAlive && !isUpgrade && head.method != .CONNECT, now: now(context))
            forgetSmall()
            if SyncShortcut.mayTake(head) {
                small = (head, nil)
                return
            }
            context.fireChannelRead(wrapInboundOut(part))
            answerExpectation(head, context: context)
        case .body(let buffer):
            let isWanted = isReceiving
            perform(phase.body(buffer.readableBytes, now: now(context)), context: context)
            guard isWanted else { return }
            if small == nil {
                context.fireChannelRead(wrapInboundOut(part))
            } else {
                keepSmall(buffer)
            }
        case .end:
            let action = phase.end(now: now(context))
            if phase.phase == .answering, !answerSmall(context) { context.fireChannelRead(wrapInboundOut(part)) }
            perform(action, context: context)
        }
    }

    /// RFC 9112, section 3.2: a request of HTTP/1.1 says once which host it is for; one without is no request. What asks in
    /// HTTP/1.0 need not say it.
    private static func namesOneHost(_ head: HTTPRequestHead) -> Bool {
        let hosts = head.headers.reduce(into: 0) { count, field in
            if field.name.utf8.count == 4, field.name.lowercased() == "host" { count += 1 }
        }
        return hosts == 1 || (hosts == 0 && head.version == .http1_0)
    }

    /// Whether what stands in the head takes no time to compare. Swift puts the accents of a text in their order for it, and of
    /// thousands in a row that takes seconds; a head is ASCII, and other texts in it are short.
    private static func isShort(_ head: HTTPRequestHead) -> Bool {
        isASCII(head.uri) && head.headers.allSatisfy { $0.value.utf8.count <= 256 || isASCII($0.value) }
    }

    private static func isASCII(_ text: String) -> Bool { text.utf8.allSatisfy { $0 < 0x80 } }

    private func keepSmall(_ piece: ByteBuffer) {
        smallBytes += piece.readableBytes
        vitals.holdRequest(piece.readableBytes)
        if small?.body == nil { small?.body = piece } else { small?.body?.writeImmutableBuffer(piece) }
    }

    private func forgetSmall() {
        small = nil
        vitals.releaseRequest(smallBytes)
        smallBytes = 0
    }

    /// The small sync is whole: answers it, or hands on what was kept of it.
    private func answerSmall(_ context: ChannelHandlerContext) -> Bool {
        guard let (head, body) = small else { return false }
        forgetSmall()
        let bytes = body.map { Array($0.readableBytesView) } ?? []
        guard let answer = shortcut.answer(head, bytes) else {
            context.fireChannelRead(wrapInboundOut(.head(head)))
            if let body { context.fireChannelRead(wrapInboundOut(.body(body))) }
            return false
        }
        send(.head(answer.head), promise: nil, context: context)
        send(.body(.byteBuffer(ByteBuffer(bytes: answer.body))), promise: nil, context: context)
        send(.end(nil), promise: nil, context: context)
        return true
    }

    private var isReceiving: Bool {
        if case .receiving = phase.phase { return true }
        return false
    }

    /// A client that asks first is told to go on, unless the body would be too large anyway.
    private func answerExpectation(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        guard isReceiving, !phase.answerBegan, head.version == .http1_1,
            head.headers.first(name: "expect")?.lowercased() == "100-continue",
            declaredBytes <= phase.limits.bodyBytes
        else { return }
        context.writeAndFlush(
            wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
    }

    private func closeInput(_ context: ChannelHandlerContext) {
        perform(phase.inputClosed(now: now(context)), context: context)
    }

    // MARK: What goes out

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !hasRefused, !isClosing else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        let part = unwrapOutboundIn(data)
        guard isReceiving else { return send(part, promise: promise, context: context) }
        heldAnswer.append((part, promise))
        if case .end = part {
            perform(phase.answerHeld(declared: declaredBytes, now: now(context)), context: context)
            setTimer(context)
            readOn(context)
        }
    }

    private func release(_ context: ChannelHandlerContext) {
        let held = heldAnswer
        heldAnswer = []
        for (part, promise) in held { send(part, promise: promise, context: context) }
    }

    private func send(
        _ part: HTTPServerResponsePart, promise: EventLoopPromise<Void>?, context: ChannelHandlerContext
    ) {
        switch part {
        case .head(var head):
            if phase.answerHead() { head.headers.replaceOrAdd(name: "connection", value: "close") }
            if version != .http1_1 { head.version = version }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body(let body):
            let held = body.readableBytes
            vitals.holdAnswer(held)
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.whenComplete { [vitals] _ in vitals.releaseAnswer(held) }
            if let promise { written.futureResult.cascade(to: promise) }
            context.write(wrapOutboundOut(.body(body)), promise: written)
        case .end(let trailers):
            context.writeAndFlush(wrapOutboundOut(.end(trailers)), promise: promise)
            perform(phase.answerEnd(now: now(context)), context: context)
            goOn(context)
        }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .output else {
            context.close(mode: mode, promise: promise)
            return
        }
        // The handlers behind have nothing more to say; the end comes when what they said has left.
        promise?.succeed()
        switch phase.phase {
        case .refusing, .draining: return
        case .waiting, .receiving, .answering, .closing: break
        }
        perform(phase.closed(now: now(context)), context: context)
        setTimer(context)
    }

    /// An answer has ended: on with what came meanwhile, then with reading.
    private func goOn(_ context: ChannelHandlerContext) {
        // An answer given at once, within the loop below: that goes on by itself.
        guard !isGoingOn else { return }
        isGoingOn = true
        defer { isGoingOn = false }
        let hasMore = !waiting.isEmpty
        while phase.phase != .answering, let next = waiting.popFirst() {
            switch next {
            case .part(let part): take(part, context: context)
            case .garbage(let error):
                if error is HTTPParserError {
                    perform(phase.garbage(now: now(context)), context: context)
                } else {
                    perform(.drop, context: context)
                }
            case .inputClosed: closeInput(context)
            }
        }
        setTimer(context)
        // What was passed on counts as one more read: the handlers behind take it up at its end.
        if hasMore { context.fireChannelReadComplete() }
        if isReadWanted, phase.phase != .answering {
            isReadWanted = false
            context.read()
        }
    }

    // MARK: Doing what was decided

    private func perform(_ action: ConnectionPhase.Action, context: ChannelHandlerContext) {
        switch action {
        case .nothing: break
        case .drop:
            isClosing = true
            context.close(promise: nil)
        case .close: closeGently(context)
        case .release: release(context)
        case .endStream: write(context: context, data: wrapOutboundOut(.end(nil)), promise: nil)
        case .refuse(let refusal): refuse(refusal, context: context)
        }
    }

    private func closeGently(_ context: ChannelHandlerContext) {
        guard !isClosing else { return }
        isClosing = true
        waiting.removeAll()
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        context.close(mode: .output).whenComplete { result in
            let (this, context) = bound.value
            switch result {
            case .success:
                this.phase.sent(now: this.now(context))
                this.setTimer(context)
                // Without reading, the other side's end would not be seen.
                context.read()
            case .failure: context.close(promise: nil)
            }
        }
    }

    private func refuse(_ refusal: ConnectionPhase.Refusal, context: ChannelHandlerContext) {
        guard !hasRefused else { return }
        forgetSmall()
        let problem = Problem(refusal)
        vitals.count(problem: problem.code)
        let body = ByteBuffer(bytes: problem.json)
        var head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: problem.status))
        head.headers.add(name: "content-type", value: Problem.contentType)
        head.headers.add(name: "content-length", value: String(body.readableBytes))
        head.headers.add(name: "connection", value: "close")
        for header in problem.headers { head.headers.add(name: header.name, value: header.value) }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        hasRefused = true
        context.fireErrorCaught(RequestAborted())
        closeGently(context)
    }

    // MARK: Time

    private func now(_ context: ChannelHandlerContext) -> Int64 {
        Int64(context.eventLoop.now.uptimeNanoseconds)
    }

    /// One timer for a connection: it is made anew only for an earlier deadline, else it looks again when it fires.
    private func setTimer(_ context: ChannelHandlerContext) {
        guard context.channel.isActive, let due = phase.deadline else { return }
        if let timer, timer.due <= due { return }
        timer?.task.cancel()
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let task = context.eventLoop.scheduleTask(deadline: .uptimeNanoseconds(UInt64(due))) {
            let (this, context) = bound.value
            this.timerFired(context)
        }
        timer = (due, task)
    }

    private func timerFired(_ context: ChannelHandlerContext) {
        timer = nil
        if let due = phase.deadline, due <= now(context) {
            perform(phase.late(now: now(context), isMoving: isMoving(context)), context: context)
        }
        setTimer(context)
    }

    /// Whether bytes are waiting to leave, and fewer than at the last look.
    private func isMoving(_ context: ChannelHandlerContext) -> Bool {
        let left = (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        defer { bytesLeft = left }
        return left > 0 && left != bytesLeft
    }
}

/// Tells the guard of bytes before they are parsed, so that a head that never ends is noticed.
final class ByteWatcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let connection: ConnectionGuard

    init(_ connection: ConnectionGuard) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        connection.sawBytes(unwrapInboundIn(data), context: context) { context.fireChannelRead(data) }
    }
}
