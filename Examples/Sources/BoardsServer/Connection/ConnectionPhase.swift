/// Where one HTTP/1 connection stands, and what comes next: the decisions of ``ConnectionGuard`` as a plain value.
///
/// ```
///        ┌─────────────── answer's end (kept) ───────────────┐
///        ▼                                                   │
///     waiting ──head──▶ receiving ──end──▶ answering ────────┤
///        │                  │ answer given     ▲ end         │ answer's end (not kept)
///        │                  ▼                  │             │
///        │              refusing ──────────────┘             │
///        │                  │ limit, deadline: answer sent   ▼
///        │                  └──▶ draining ──end, limit──▶ closing
///        └── half a head too late, garbage, idle ────────────▲
/// ```
///
/// Times are nanoseconds of whatever clock the caller has; it awaits nothing and reads no clock.
struct ConnectionPhase {
    enum Phase: Equatable {
        /// No request; `headBegan` once bytes of one have come.
        case waiting(since: Int64, headBegan: Int64?, headBytes: Int)
        /// A request's header fields are here, its body is on its way.
        case receiving(since: Int64, lastByte: Int64)
        /// The request is complete, the answer is not.
        case answering
        /// The answer was given before the request was complete, and is held back until it is: many clients look for
        /// an answer only after all is sent. What comes is thrown away.
        case refusing(since: Int64, lastByte: Int64, bytes: Int)
        /// The answer was sent before the request was complete; the rest of it is thrown away.
        case draining(since: Int64, bytes: Int)
        /// The last answer is on its way out (`isSent`: left); nothing is awaited any more but the other side's end.
        case closing(since: Int64, isSent: Bool)
    }

    /// Why a connection is answered by the guard itself.
    enum Refusal: Equatable {
        case malformed, headTooLarge, timeout
        /// A method that nobody knows; what the path has instead.
        case method(allowed: [String])
    }

    enum Action: Equatable {
        case nothing
        /// Sends the problem, then closes; a request that is half read is aborted first.
        case refuse(Refusal)
        /// Sends what is waiting, then closes.
        case close
        /// Closes without another byte.
        case drop
        /// Sends the answer that was held back.
        case release
        /// Ends the event stream that the present answer is.
        case endStream
    }

    let limits: ConnectionLimits
    private(set) var phase: Phase
    /// Whether an answer's head has gone out for the present request.
    private(set) var answerBegan = false
    /// Whether the connection ends with the present answer.
    private(set) var isLast = false
    private(set) var isStreaming = false
    /// Set once the server stops: when whatever is not done by then ends all the same.
    private(set) var stopBy: Int64?

    init(limits: ConnectionLimits, now: Int64) {
        self.limits = limits
        phase = .waiting(since: now, headBegan: nil, headBytes: 0)
    }

    /// Raw bytes came, before they are parsed.
    mutating func bytes(_ count: Int, now: Int64) {
        guard case .waiting(let since, let began, let held) = phase else { return }
        phase = .waiting(since: since, headBegan: began ?? now, headBytes: held + count)
    }

    /// All that the bytes held was parsed.
    mutating func parsed(now: Int64) -> Action {
        guard case .waiting(_, .some, let bytes) = phase, bytes > limits.headerBytes else { return .nothing }
        return refused(.headTooLarge, now: now)
    }

    /// A request began. `isKept`: the connection may serve another after it.
    mutating func head(isKept: Bool, now: Int64) {
        guard case .waiting = phase else { return }
        phase = .receiving(since: now, lastByte: now)
        answerBegan = false
        if !isKept { isLast = true }
    }

    /// A piece of the body came.
    mutating func body(_ count: Int, now: Int64) -> Action {
        switch phase {
        case .receiving(let since, _):
            phase = .receiving(since: since, lastByte: now)
        case .draining(let since, let bytes):
            phase = .draining(since: since, bytes: bytes + count)
            if bytes + count > limits.drainBytes { return closed(now: now) }
        case .refusing(let since, _, let bytes):
            phase = .refusing(since: since, lastByte: now, bytes: bytes + count)
            if bytes + count > limits.drainBytes { return .release }
        case .waiting, .answering, .closing:
            break
        }
        return .nothing
    }

    /// The request is complete.
    mutating func end(now: Int64) -> Action {
        switch phase {
        case .receiving:
            phase = .answering
            return .nothing
        case .refusing:
            phase = .answering
            return .release
        case .draining:
            return closed(now: now)
        case .waiting, .answering, .closing:
            return .nothing
        }
    }

    /// The whole answer is there, and the request is not. `declared`: how many bytes of body it spoke of.
    mutating func answerHeld(declared: Int, now: Int64) -> Action {
        guard case .receiving = phase else { return .release }
        phase = .refusing(since: now, lastByte: now, bytes: 0)
        return declared > limits.drainBytes ? .release : .nothing
    }

    /// An answer begins: whether it must say that the connection ends with it.
    mutating func answerHead() -> Bool {
        answerBegan = true
        if phase != .answering { isLast = true }
        return isLast
    }

    /// An answer ended.
    mutating func answerEnd(now: Int64) -> Action {
        isStreaming = false
        switch phase {
        case .receiving, .refusing:
            phase = .draining(since: now, bytes: 0)
            return .nothing
        case .answering:
            if isLast { return closed(now: now) }
            phase = .waiting(since: now, headBegan: nil, headBytes: 0)
            return .nothing
        case .waiting, .draining, .closing:
            return .nothing
        }
    }

    /// The present answer goes on until somebody leaves.
    mutating func stream() { isStreaming = true }

    /// What came cannot be read as HTTP. (While an answer is in the making the caller keeps such news until its end.)
    /// - Parameter methods: what the path has, if only the method is not known.
    mutating func garbage(methods: [String]? = nil, now: Int64) -> Action {
        switch phase {
        case .waiting: return refused(methods.map { .method(allowed: $0) } ?? .malformed, now: now)
        case .receiving: return answerBegan ? .drop : refused(.malformed, now: now)
        case .refusing: return releasedLast()
        case .draining: return closed(now: now)
        case .answering, .closing: return .nothing
        }
    }

    /// The other side sends nothing more.
    mutating func inputClosed(now: Int64) -> Action {
        switch phase {
        case .waiting(_, .some, _): return refused(.malformed, now: now)
        case .waiting: return closed(now: now)
        case .receiving: return answerBegan ? .drop : refused(.malformed, now: now)
        case .answering:
            isLast = true
            return isStreaming ? .drop : .nothing
        case .refusing: return releasedLast()
        case .draining, .closing: return .drop
        }
    }

    /// The server stops: what was begun is answered, nothing else.
    mutating func quiesce(now: Int64) -> Action {
        isLast = true
        stopBy = now + Self.nanoseconds(limits.stopDeadline)
        switch phase {
        case .waiting(_, .none, _): return closed(now: now)
        case .answering: return isStreaming ? .endStream : .nothing
        case .waiting, .receiving, .refusing, .draining, .closing: return .nothing
        }
    }

    private mutating func releasedLast() -> Action {
        isLast = true
        phase = .answering
        return .release
    }

    /// The connection ends with what was sent so far.
    mutating func closed(now: Int64) -> Action {
        if case .closing = phase { return .nothing }
        phase = .closing(since: now, isSent: false)
        return .close
    }

    /// The last answer has left.
    mutating func sent(now: Int64) {
        if case .closing = phase { phase = .closing(since: now, isSent: true) }
    }

    private mutating func refused(_ refusal: Refusal, now: Int64) -> Action {
        phase = .closing(since: now, isSent: false)
        return .refuse(refusal)
    }
}

extension ConnectionPhase {
    /// When this connection must be looked at again; nil while an answer is in the making.
    var deadline: Int64? {
        guard let usual = usualDeadline else { return nil }
        return stopBy.map { min($0, usual) } ?? usual
    }

    private var usualDeadline: Int64? {
        switch phase {
        case .waiting(_, .some(let began), _): began + Self.nanoseconds(limits.headerDeadline)
        case .waiting(let since, .none, _): since + Self.nanoseconds(limits.idle)
        case .receiving(let since, let last):
            min(last + Self.nanoseconds(limits.bodyIdle), since + Self.nanoseconds(limits.bodyDeadline))
        case .answering: nil
        case .refusing(let since, let last, _):
            min(last + Self.nanoseconds(limits.refusalIdle), since + Self.nanoseconds(limits.drainDeadline))
        case .draining(let since, _): since + Self.nanoseconds(limits.drainDeadline)
        case .closing(let since, let isSent):
            since + Self.nanoseconds(isSent ? min(2, limits.drainDeadline) : limits.idle)
        }
    }

    /// The deadline has come. `isMoving`: bytes of an answer have left since the last look and more are waiting.
    mutating func late(now: Int64, isMoving: Bool) -> Action {
        let isMoving = isMoving && stopBy.map { now < $0 } ?? true
        switch phase {
        case .waiting(_, .some, _):
            return refused(.timeout, now: now)
        case .waiting(_, .none, let bytes):
            guard isMoving else { return .drop }
            phase = .waiting(since: now, headBegan: nil, headBytes: bytes)
            return .nothing
        case .receiving:
            return answerBegan ? .drop : refused(.timeout, now: now)
        case .answering:
            return .nothing
        case .refusing:
            return .release
        case .draining:
            return closed(now: now)
        case .closing:
            guard isMoving else { return .drop }
            phase = .closing(since: now, isSent: false)
            return .nothing
        }
    }

    static func nanoseconds(_ seconds: Double) -> Int64 { Int64(seconds * 1e9) }
}
