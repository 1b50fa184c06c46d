import Foundation
import HTTPTypes
import Logging
import SyncCore
import SyncServer
import SyncTesting
import Transport

/// An HTTP client whose server is the real core in this process, and on whose way a suite can make requests go wrong.
final class ContractHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: `fates`, `seen` and `isClosed` are used under `lock` alone.
    enum Fate: Sendable { case refused, answerLost, held }

    /// For what fails on purpose.
    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private let lock = NSLock()
    private let held = Hold()
    private let serve: @Sendable (HTTPRequest, [UInt8]) -> ServerReply
    private var fates: [(isMeant: @Sendable (HTTPRequest) -> Bool, fate: Fate)] = []
    private var seen: [HTTPRequest] = []
    private var isClosed = false

    init(_ serve: @escaping @Sendable (HTTPRequest, [UInt8]) -> ServerReply) { self.serve = serve }

    var requests: [HTTPRequest] { lock.withLock { seen } }
    func waitForHeld() async { await held.waitForArrivals(1) }

    /// What becomes of the next request that is meant.
    func suffer(_ fate: Fate, _ isMeant: @escaping @Sendable (HTTPRequest) -> Bool = { _ in true }) {
        lock.withLock { fates.append((isMeant, fate)) }
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        let (fate, closed) = lock.withLock { () -> (Fate?, Bool) in
            if isClosed { return (nil, true) }
            seen.append(request)
            return (fates.firstIndex { $0.isMeant(request) }.map { fates.remove(at: $0).fate }, false)
        }
        if closed { throw HTTPFailure(.closed, "closed") }
        switch fate {
        case .refused?: return HTTPAnswer(head: HTTPResponse(status: .serviceUnavailable), body: HTTPBody([]))
        case .answerLost?:
            _ = serve(request, body)
            throw HTTPFailure(.interrupted, "the answer was lost")
        case .held?:
            await held.wait()
            if Task.isCancelled { throw HTTPFailure(.cancelled, "cancelled") }
            if lock.withLock({ isClosed }) { throw HTTPFailure(.closed, "closed") }
        case nil: break
        }
        let reply = serve(request, body)
        var head = HTTPResponse(status: .init(code: reply.status))
        for header in reply.headers {
            if let name = HTTPField.Name(header.name) { head.headerFields[name] = header.value }
        }
        return HTTPAnswer(head: head, body: HTTPBody(reply.body))
    }

    func close() async {
        lock.withLock { isClosed = true }
        held.release()
    }
}

/// The real core over a fresh file, for the entities of the suites.
final class ContractServer: Sendable {
    let service: SyncService
    private let folder: URL

    init(makesIDs: Bool = false) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("contract-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let entities = ExchangeContract.entities.map { entity in
            ServerEntity(
                entity.name, collection: entity.name + "s",
                parents: entity.parents.map { .init(field: $0.name, entity: $0.reference?.entity ?? "") })
        }
        service = try SyncService(
            path: folder.appendingPathComponent("server.sqlite").path,
            configuration: ServerConfiguration(entities: entities, synchronous: .normal, makesIDs: makesIDs),
            clock: ManualWallClock(), randomness: SeededRandomness(seed: 7))
    }

    /// A client of the batch dialect.
    func batch() -> ContractHTTP {
        ContractHTTP { [service] request, body in
            request.headerFields[.contentEncoding] == nil
                ? service.sync(account: "ann", body: body) : ServerReply(status: 415)
        }
    }

    /// A client of the REST dialect.
    func rest() -> ContractHTTP {
        ContractHTTP { [service] request, body in
            let parts = (request.path ?? "").split(separator: "?", maxSplits: 1).map(String.init)
            return service.rest(
                account: "ann",
                request: RESTRequest(
                    method: request.method.rawValue, path: parts.first ?? "", query: parts.count > 1 ? parts[1] : "",
                    headers: request.headerFields.map { .init($0.name.rawName, $0.value) }, body: body))
        }
    }

    func end() throws {
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }
}
