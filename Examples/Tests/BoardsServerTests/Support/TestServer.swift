import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import ServiceLifecycle
import SyncServer

@testable import BoardsServer

/// A whole server on a free port of this machine, for the time of a closure; ended gracefully after it.
struct TestServer: Sendable {
    let port: Int
    let program: ServerProgram
    let log: LogLines

    static func run(
        _ backend: any SyncBackend, options: ServerOptions = .testing, book: TokenBook = TokenBook(),
        _ body: (TestServer) async throws -> Void
    ) async throws {
        let log = LogLines()
        let logger = Logger(label: "test") { _ in JSONLogHandler(level: .debug, write: log.add) }
        let program = try await ServerProgram(options: options, backend: backend, book: book, logger: logger)
        let (ports, port) = AsyncStream<Int>.makeStream()
        let services = ServiceGroup(
            configuration: .init(
                services: [Running(program: program) { port.yield($0) }], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { port.finish() }
                try await services.run()
            }
            var first: Int?
            for await one in ports {
                first = one
                break
            }
            guard let first else { return try await group.waitForAll() }
            do {
                try await body(TestServer(port: first, program: program, log: log))
            } catch {
                await services.triggerGracefulShutdown()
                try await group.waitForAll()
                throw error
            }
            await services.triggerGracefulShutdown()
            try await group.waitForAll()
        }
    }

    private struct Running: Service {
        let program: ServerProgram
        let ready: @Sendable (Int) -> Void

        func run() async throws { try await program.run(signals: [], ready: ready) }
    }
}

extension ServerOptions {
    /// A free port, and nothing that waits long.
    static var testing: ServerOptions {
        var options = ServerOptions()
        options.port = 0
        options.connections.stopDeadline = 1
        options.connections.drainDeadline = 2
        return options
    }
}

/// What was logged.
final class LogLines: Sendable {
    private let lines = NIOLockedValueBox<[String]>([])

    @Sendable func add(_ line: [UInt8]) { lines.withLockedValue { $0.append(String(decoding: line, as: UTF8.self)) } }

    var text: String { lines.withLockedValue { $0.joined() } }
}

/// A store that answers what a test tells it, when the test tells it.
final class HeldBackend: SyncBackend {
    typealias Asked = @Sendable (_ account: String, _ body: [UInt8]) async throws -> ServerReply

    private let asked: Asked
    private let version: Int64
    private let listeners = NIOLockedValueBox<[String: AsyncStream<Commit>.Continuation]>([:])
    private let pruned = NIOLockedValueBox(0)
    private let paths = NIOLockedValueBox<[RESTRequest]>([])

    init(version: Int64 = 0, asked: @escaping Asked = { _, body in .json(String(decoding: body, as: UTF8.self)) }) {
        self.version = version
        self.asked = asked
    }

    /// The requests for records that came.
    var requests: [RESTRequest] { paths.withLockedValue { $0 } }

    /// How often it was told to forget what is over.
    var prunings: Int { pruned.withLockedValue { $0 } }

    func syncAtOnce(account: String, body: [UInt8]) -> ServerReply? { nil }
    func prune() async throws { pruned.withLockedValue { $0 += 1 } }
    func sync(account: String, body: [UInt8]) async throws -> ServerReply { try await asked(account, body) }

    func rest(account: String, request: RESTRequest) async throws -> ServerReply {
        paths.withLockedValue { $0.append(request) }
        return try await asked(account, request.body)
    }

    func currentVersion(account: String) async throws -> Int64 { version }
    func checkHealth() async throws {}

    func commits(account: String) -> any AsyncSequence<Commit, Never> & Sendable {
        let (stream, continuation) = AsyncStream<Commit>.makeStream()
        listeners.withLockedValue { $0[account] = continuation }
        return stream
    }

    /// Something was committed.
    func commit(_ version: Int64, scopes: [String] = [], account: String = TokenBook.openAccount) {
        listeners.withLockedValue { _ = $0[account]?.yield(Commit(version: version, scopes: scopes)) }
    }
}

extension ServerReply {
    static func json(_ text: String) -> ServerReply {
        ServerReply(status: 200, headers: [.init("Content-Type", "application/json")], body: Array(text.utf8))
    }
}
