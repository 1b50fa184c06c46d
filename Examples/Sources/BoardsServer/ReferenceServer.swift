internal import Logging
internal import NIOCore
internal import ServiceLifecycle
internal import SyncServer
public import UnixSignals

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif
#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The reference server: PROTOCOL.md over HTTP, for the boards' entities.
public enum ReferenceServer {
    /// Runs a server until a signal or a cancellation, answers what it has begun, and closes the database.
    ///
    /// - Parameters:
    ///   - options: How it is run.
    ///   - signals: The signals that stop it; none for a server within another program.
    ///   - ready: Called once, with the port, when requests are taken.
    /// - Throws: ``ServeFailure``, each a sentence for whoever started it.
    public static func run(
        _ options: ServerOptions, signals: [UnixSignal] = [.sigterm, .sigint],
        ready: @escaping @Sendable (_ port: Int) -> Void
    ) async throws(ServeFailure) {
        ProcessFacts.raiseFileLimit()
        guard let level = Logger.Level(rawValue: options.logLevel) else {
            throw .badOptions("There is no log level '\(options.logLevel)'.")
        }
        let logger = Logger(label: "boards.server") { _ in JSONLogHandler(level: level) }
        let book = try options.tokens.map { path throws(ServeFailure) in try TokenBook(path: path) } ?? TokenBook()
        let place = try DatabasePlace(options.database)
        defer { place.leave() }
        let backend = try open(place.path, options)
        let failure = await serve(options, backend, book, logger, signals, ready)
        do {
            // A task of its own, awaited here: the one that runs the server may be cancelled, and must close all the same.
            try await Task { try await backend.close() }.value
        } catch {
            if failure == nil { throw .store("The database did not close: \(error).") }
        }
        if let failure { throw failure }
        logger.info("stopped")
    }

    /// Runs a server within this program for the time of a closure, then stops it as a signal would: what it has begun
    /// is answered.
    public static func during<Result: Sendable>(
        _ options: ServerOptions, _ body: @escaping @Sendable (_ port: Int) async throws -> Result
    ) async throws -> Result {
        let (ports, port) = AsyncStream<Int>.makeStream()
        let guest = Guest(options: options, port: port)
        let services = ServiceGroup(
            configuration: .init(
                services: [.init(service: guest, successTerminationBehavior: .gracefullyShutdownGroup)],
                logger: Logger(label: "boards.guest") { _ in SwiftLogNoOpLogHandler() }))
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { port.finish() }
                try await services.run()
            }
            var result: Swift.Result<Result, any Error>?
            for await port in ports {
                do { result = .success(try await body(port)) } catch { result = .failure(error) }
                break
            }
            await services.triggerGracefulShutdown()
            try await group.waitForAll()
            guard let result else { throw ServeFailure.store("The server ended before it was ready.") }
            return try result.get()
        }
    }

    /// A server as a service of another program.
    private struct Guest: Service {
        let options: ServerOptions
        let port: AsyncStream<Int>.Continuation

        func run() async throws {
            try await ReferenceServer.run(options, signals: []) { port.yield($0) }
        }
    }

    /// Copies a database, while a server may be running on it, into a file that is not there yet.
    ///
    /// The copy knows that it is one: a server that is started on it begins a new epoch.
    public static func backup(database: String, to target: String) throws(ServeFailure) {
        do {
            try SyncService.backup(database: database, to: target)
        } catch {
            throw .store(ServeFailure.sentence(error))
        }
    }

    private static func open(_ path: String, _ options: ServerOptions) throws(ServeFailure) -> StoreBackend {
        do {
            return StoreBackend(
                service: try SyncService(path: path, configuration: BoardsStore.configuration(options)))
        } catch {
            throw .store(ServeFailure.sentence(error))
        }
    }

    private static func serve(
        _ options: ServerOptions, _ backend: StoreBackend, _ book: TokenBook, _ logger: Logger,
        _ signals: [UnixSignal], _ ready: @escaping @Sendable (_ port: Int) -> Void
    ) async -> ServeFailure? {
        do {
            let program = try await ServerProgram(options: options, backend: backend, book: book, logger: logger)
            try await program.run(signals: signals) { port in
                if options.database == nil {
                    logger.notice("no database was named: what is stored goes away with this server")
                }
                if !book.strangeLines.isEmpty {
                    logger.warning(
                        "lines of the tokens file are skipped", metadata: ["lines": "\(book.strangeLines)"])
                }
                logger.info("started", metadata: ["port": "\(port)"])
                ready(port)
            }
            return nil
        } catch is CancellationError {
            return nil
        } catch {
            return .cannotListen(host: options.host, port: options.port, reason: reason(error))
        }
    }

    private static func reason(_ error: any Error) -> String {
        guard let error = error as? IOError else { return "\(error)" }
        return String(cString: strerror(error.errnoCode))
    }
}
