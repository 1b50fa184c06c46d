import Foundation
import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Transport

/// The declared records, and the reference server's core behind an HTTP client without a network.
enum Lab {
    static func schema() throws -> Schema {
        try Schema([
            EntitySchema("board", fields: [.text("name")]),
            EntitySchema("card", fields: [.parent("idBoard", "board"), .text("name"), .text("desc"), .real("pos")]),
        ])
    }

    static func service(_ folder: URL, clock: any WallClock) throws -> SyncService {
        try SyncService(
            path: folder.appending(path: "server.sqlite").path,
            configuration: ServerConfiguration(
                entities: [
                    ServerEntity("board", collection: "boards"),
                    ServerEntity("card", collection: "cards", parents: [.init(field: "idBoard", entity: "board")]),
                ], synchronous: .normal), clock: clock, randomness: SeededRandomness(seed: 7))
    }

    static func folder(in parent: URL) throws -> URL {
        let folder = parent.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }
}

/// An HTTP client whose server is the core itself, at the end of a line that takes its time.
final class LineHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: `count` is used under `lock` alone.
    private let lock = NSLock()
    private var count = 0
    private let service: SyncService
    private let latency: Duration
    private let clock: any Clock<Duration>

    init(_ service: SyncService, latency: Duration = .zero, clock: any Clock<Duration> = ContinuousClock()) {
        self.service = service
        self.latency = latency
        self.clock = clock
    }

    /// Round trips since the last asking.
    func trips() -> Int {
        lock.withLock {
            defer { count = 0 }
            return count
        }
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        lock.withLock { count += 1 }
        if latency > .zero {
            do { try await clock.sleep(for: latency) } catch { throw HTTPFailure(.cancelled, "cancelled") }
        }
        let reply = answer(request, body)
        var head = HTTPResponse(status: .init(code: reply.status))
        for header in reply.headers {
            if let name = HTTPField.Name(header.name) { head.headerFields[name] = header.value }
        }
        return HTTPAnswer(head: head, body: HTTPBody(reply.body))
    }

    private func answer(_ request: HTTPRequest, _ body: [UInt8]) -> ServerReply {
        // The core takes bodies as the shell hands them over: inflated.
        guard request.headerFields[.contentEncoding] == nil else { return ServerReply(status: 415) }
        let path = request.path ?? "/"
        if path == "/api/sync" { return service.sync(account: "account", body: body) }
        return service.rest(
            account: "account",
            request: RESTRequest(
                method: request.method.rawValue, path: path,
                headers: request.headerFields.map { .init($0.name.rawName, $0.value) }, body: body))
    }

    func close() async {}
}
