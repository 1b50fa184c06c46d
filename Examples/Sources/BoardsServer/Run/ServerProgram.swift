internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import UnixSignals

/// All parts of one server, put together; it begins when its service group runs.
struct ServerProgram: Sendable {
    let options: ServerOptions
    let backend: any SyncBackend
    let book: TokenBook
    let hub: EventHub
    let pump: CommitPump
    let vitals: ServerVitals
    let logger: Logger
    let group: any EventLoopGroup
    private let limiter: AccountLimiter
    private let shortcut: SyncShortcut

    init(
        options: ServerOptions, backend: any SyncBackend, book: TokenBook, logger: Logger,
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) async throws {
        self.options = options
        self.backend = backend
        self.book = book
        self.logger = logger
        self.group = group
        vitals = ServerVitals()
        hub = try await EventHub(group: group, limits: options.events, vitals: vitals)
        pump = CommitPump(backend: backend, hub: hub, vitals: vitals)
        limiter = AccountLimiter(limits: options.rates, now: ProcessFacts.monotonicNow)
        shortcut = SyncShortcut(
            backend: backend, book: book, limiter: limiter, vitals: vitals, logger: logger,
            now: ProcessFacts.monotonicNow, date: DateLine())
        if let count = book.count { vitals.knows(tokens: count) }
    }

    /// Runs until a signal, a graceful shutdown or a cancellation; returns when all that was begun is answered.
    func run(signals: [UnixSignal], ready: @escaping @Sendable (_ port: Int) -> Void) async throws {
        let services = ServiceGroup(
            configuration: .init(
                services: [pump, tokenWatch, pruning, application(ready: ready)], gracefulShutdownSignals: signals,
                logger: quiet
            ))
        do {
            try await services.run()
        } catch {
            try await hub.stop()
            throw error
        }
        try await hub.stop()
    }

    /// Hummingbird and the service group speak of their own doings only when something is wrong.
    private var quiet: Logger {
        var logger = logger
        logger.logLevel = max(.warning, logger.logLevel)
        return logger
    }

    private var pruning: PruningRounds {
        PruningRounds(backend: backend, interval: options.pruningInterval, logger: logger)
    }

    private var tokenWatch: TokenWatch {
        TokenWatch(book: book, interval: options.tokensInterval, logger: logger) { [book, hub, vitals] in
            if let count = book.count { vitals.knows(tokens: count) }
            hub.closeStreams { authorization, account in book.account(authorization: authorization) == account }
        }
    }

    private func application(ready: @escaping @Sendable (_ port: Int) -> Void) -> some ApplicationProtocol {
        let executors = LoopExecutors(group)
        let limits = options.connections
        return Application(
            responder: responder,
            server: HTTPServerBuilder { [vitals, shortcut] responder in
                BoardsChannel(
                    responder: responder, limits: limits, vitals: vitals, executors: executors, shortcut: shortcut)
            },
            configuration: ApplicationConfiguration(
                address: .hostname(options.host, port: options.port), backlog: 1_024,
                availableConnectionsDelegate: .maximum(limits.maximum, logger: quiet)),
            onServerRunning: { channel in ready(channel.localAddress?.port ?? options.port) },
            eventLoopGroupProvider: .shared(group), logger: quiet)
    }

    private var responder: ShellResponder {
        let began = ProcessFacts.monotonicNow()
        return ShellResponder(
            backend: backend, book: book,
            limiter: limiter, hub: hub, pump: pump,
            vitals: vitals, bodies: BodyReader(limits: options.connections, vitals: vitals), dresser: AnswerDresser(),
            logger: logger,
            now: ProcessFacts.monotonicNow
        ) { [vitals] in
            let uptime = Double(ProcessFacts.monotonicNow() - began) / 1e9
            return MetricsText(vitals.reading, memory: ProcessFacts.residentMemory, uptime: uptime).text
        }
    }
}
