/// How the reference server is run: what `boards serve` takes from its command line, as a value.
public struct ServerOptions: Sendable, Equatable {
    /// The address to listen on; only this machine by default, since TLS is a proxy's work.
    public var host = "127.0.0.1"
    /// The port to listen on; 0 lets the system choose a free one.
    public var port = 8080
    /// The database file; nil makes one in a temporary folder that goes away with the server.
    public var database: String?
    /// The file of `token account` lines; nil serves one open account to everybody who can connect.
    public var tokens: String?
    /// Whether the database was restored from a backup: begins a new epoch.
    public var isRestored = false
    /// Whether the server makes the ids of new records itself (24 hex digits).
    public var makesIDs = false
    /// Whether a commit may be answered before it is on the disk (a power loss may then take the last moments).
    public var isRelaxed = false
    /// What one account may ask for.
    public var rates = RateLimits()
    /// What one connection may take, and all together.
    public var connections = ConnectionLimits()
    /// How event streams behave.
    public var events = EventLimits()
    /// Seconds between two looks at the tokens file; a change counts within 5 s.
    public var tokensInterval: Double = 2
    /// Seconds between two rounds that forget what is over, beside those that come with writes.
    public var pruningInterval: Double = 60
    /// The least level that is logged: `trace`, `debug` (each request), `info`, `notice`, `warning`, `error`.
    public var logLevel = "info"

    /// The defaults.
    public init() {}
}

/// What one account may ask for, so that it cannot starve another.
public struct RateLimits: Sendable, Equatable {
    /// Requests in work at the same time; event streams and bodies still on their way do not count.
    public var concurrent = 64
    /// Requests begun in a second, on average; as many may come at once.
    public var perSecond = 2_000
    /// Open event streams.
    public var streams = 20_000

    /// The defaults of the reference server.
    public init() {}
}

/// What one connection may take, and all together. Times are seconds.
public struct ConnectionLimits: Sendable, Equatable {
    /// Open connections; more wait in the system's queue.
    public var maximum = 16_384
    /// Bytes of a request line with its header fields.
    public var headerBytes = 64 * 1_024
    /// Header fields of one request.
    public var headerFields = 128
    /// Bytes of a request's body, as sent and as inflated.
    public var bodyBytes = 8 << 20
    /// Bytes of bodies held at once, of requests and of answers that were not read yet; beyond it 503.
    public var heldBytes = 256 << 20
    /// From the first byte of a request to the end of its header fields.
    public var headerDeadline: Double = 10
    /// Between two pieces of a body.
    public var bodyIdle: Double = 15
    /// From the header fields to the end of the body.
    public var bodyDeadline: Double = 120
    /// A kept connection without a request, or an answer of which nothing was taken.
    public var idle: Double = 60
    /// A refusal waits for the rest of its request, which is thrown away, until nothing came for so long.
    public var refusalIdle: Double = 1
    /// What is left of a refused request is read and thrown away for so long, so that the refusal arrives.
    public var drainDeadline: Double = 10
    /// And so many bytes of it.
    public var drainBytes = 64 << 20
    /// What was begun when the server stops may take so long.
    public var stopDeadline: Double = 5

    /// The defaults of the reference server.
    public init() {}
}

/// How event streams behave.
public struct EventLimits: Sendable, Equatable {
    /// Seconds between two comment lines (PROTOCOL.md, section 3).
    public var heartbeat: Double = 15
    /// Bytes that may wait for a reader here, beside the system's own buffers; beyond them it is dropped.
    public var heldBytes = 16 * 1_024

    /// The defaults of the reference server.
    public init() {}
}
