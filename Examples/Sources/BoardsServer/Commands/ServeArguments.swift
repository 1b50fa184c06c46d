public import ArgumentParser

/// The options of `boards serve` on the command line.
public struct ServeArguments: ParsableArguments {
    @Option(help: "The port to listen on; 0 lets the system choose a free one.")
    var port = 8080
    @Option(help: "The address to listen on. Beyond this machine only behind a proxy with TLS.")
    var host = "127.0.0.1"
    @Option(
        help: """
            The database file, made if it is not there; FILE.lock and FILE.version are kept beside it. Without it the \
            data is in a temporary folder and goes away with the server.
            """)
    var database: String?
    @Option(
        help: """
            The tokens file: lines of `token account`, comments begin with #; read again within 5 s of a change. Each \
            account has a data set of its own. Without it everybody who can connect shares one open account.
            """)
    var tokens: String?
    @Flag(help: "The database was restored from a backup: begin a new epoch, so that devices find what is missing.")
    var restored = false
    @Flag(help: "Make the ids of new records here (24 hex digits), and answer them as serverID.")
    var serverIds = false
    @Option(help: "How many requests of one account may be in work at once; more get 429.")
    var concurrent = RateLimits().concurrent
    @Option(help: "How many requests a second one account may make on average; more get 429.")
    var rate = RateLimits().perSecond
    @Option(help: "How many connections may be open; more wait.")
    var connections = ConnectionLimits().maximum
    @Option(help: "Seconds that a connection may be without a request, or leave an answer unread.")
    var idle = ConnectionLimits().idle
    @Option(help: "Seconds from the header fields of a request to the end of its body.")
    var bodyDeadline = ConnectionLimits().bodyDeadline
    @Option(help: "Seconds between two pieces of a request's body.")
    var bodyIdle = ConnectionLimits().bodyIdle
    @Flag(help: "Answer before a commit is on the disk: quicker, but a power loss may take the last moments.")
    var relaxed = false
    @Option(
        help: """
            What is logged on stderr, one JSON object a line: trace, debug (each request), info, notice, warning, \
            error. Never tokens, never contents.
            """)
    var log = ServerOptions().logLevel

    /// With the defaults.
    public init() {}

    /// What the words of the command line mean.
    public func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("A port is a number from 0 to 65535.") }
        guard concurrent > 0, rate > 0, connections > 0 else {
            throw ValidationError("--concurrent, --rate and --connections are at least 1.")
        }
        guard idle > 0, bodyDeadline > 0, bodyIdle > 0 else {
            throw ValidationError("--idle, --body-deadline and --body-idle are more than 0.")
        }
        guard ["trace", "debug", "info", "notice", "warning", "error", "critical"].contains(log) else {
            throw ValidationError("There is no log level '\(log)'.")
        }
    }

    /// The options as the server takes them.
    public var options: ServerOptions {
        var options = ServerOptions()
        options.port = port
        options.host = host
        options.database = database
        options.tokens = tokens
        options.isRestored = restored
        options.makesIDs = serverIds
        options.rates.concurrent = concurrent
        options.rates.perSecond = rate
        options.connections.maximum = connections
        options.connections.idle = idle
        options.connections.bodyDeadline = bodyDeadline
        options.connections.bodyIdle = bodyIdle
        options.isRelaxed = relaxed
        options.logLevel = log
        return options
    }

    /// What stands below the options in `boards serve --help`.
    public static let discussion = """
        The reference server. When it takes requests it prints one line on stdout, `listening on http://HOST:PORT`, and \
        nothing else there. SIGTERM or SIGINT end it: what was begun is answered, then it ends with status 0. A second \
        server on the same database is refused (status 1).

          POST /api/sync      one round trip for many changes; JSON, plain or gzip, up to 8 MiB
          /1/COLLECTION/…     one request a change: boards, lists, cards, checklists, checkItems, comments, labels,
                              attachments; Idempotency-Key, If-Match, ETag
          GET /api/events     commits as server-sent events; a comment every 15 s; Last-Event-ID
          GET /health         200 while the database answers; no token
          GET /metrics        figures for Prometheus; no token

        A token comes as `Authorization: Bearer TOKEN`. Errors are application/problem+json with a `code`. Requests of \
        which nothing more comes get 408, ones beyond an account's share 429 with Retry-After.
        """
}
