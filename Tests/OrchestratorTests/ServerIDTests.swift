import Foundation
import GRDB
import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Testing
import Transport
import UploadQueue

/// A server that makes its own ids, the real one, behind the whole client.
struct ServerIDTests {
    /// The service as an HTTP server that takes plain bodies only; it keeps what it was sent.
    private final class ServiceHTTP: HTTPTransport, @unchecked Sendable {
        // Sendable: `bodies` is used under `lock` alone.
        private let service: SyncService
        private let lock = NSLock()
        private var bodies: [String] = []
        private var losing: Losing?

        private enum Losing { case all, toPushes }

        init(_ service: SyncService) { self.service = service }

        var requests: [String] { lock.withLock { bodies } }

        /// Whether answers are lost on their way, from now on: all, or those to requests with changes.
        func loseAnswers(_ does: Bool, toPushes: Bool = false) {
            lock.withLock { losing = does ? toPushes ? .toPushes : .all : nil }
        }

        func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
            guard request.headerFields[.contentEncoding] == nil else {
                return HTTPAnswer(head: HTTPResponse(status: .unsupportedMediaType), body: HTTPBody([]))
            }
            lock.withLock { bodies.append(String(decoding: body, as: UTF8.self)) }
            let reply = service.sync(account: "ann", body: body)
            let isPush = String(decoding: body, as: UTF8.self).contains("changeID")
            let losing = lock.withLock { self.losing }
            if losing == .all || losing == .toPushes && isPush { throw HTTPFailure(.interrupted, "the answer is lost") }
            var head = HTTPResponse(status: .init(code: reply.status))
            for header in reply.headers {
                if let name = HTTPField.Name(header.name) { head.headerFields[name] = header.value }
            }
            return HTTPAnswer(head: head, body: HTTPBody(reply.body))
        }

        func close() async {}
    }

    /// A device whose map is known only once its store is open.
    private final class LateMap: IDTranslation, @unchecked Sendable {
        // Sendable: set once, before the first use.
        var store: Store?
        func hasServerIDs() throws(StoreFailure) -> Bool { try store?.hasServerIDs() ?? false }
        func serverIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
            try store?.serverIDs(of: records) ?? [:]
        }
        func localIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
            try store?.localIDs(of: records) ?? [:]
        }
    }

    private func device(
        _ http: ServiceHTTP, seed: UInt64, waits: IDWaiting = .always, policy: UploadPolicy = UploadPolicy()
    ) throws -> Device {
        let map = LateMap()
        let exchange = IDTranslatingExchange(
            try BatchExchange(endpoint: "https://localhost", http: http), schema: Device.parsed, translation: map,
            waits: waits)
        let device = try Device(exchange, seed: seed, policy: policy)
        map.store = device.store
        return device
    }

    private func service(in folder: URL) throws -> SyncService {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let entities = [
            ServerEntity("board", collection: "boards"),
            ServerEntity("list", collection: "lists", parents: [.init(field: "idBoard", entity: "board")]),
            ServerEntity("card", collection: "cards", parents: [.init(field: "idList", entity: "list")]),
        ]
        return try SyncService(
            path: folder.appendingPathComponent("server.sqlite").path,
            configuration: ServerConfiguration(entities: entities, makesIDs: true), clock: ManualWallClock())
    }

    @Test("IDS-01 a client that was not told that the server makes ids learns it, in the middle of a row of requests")
    func untold() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ids-\(UUID().uuidString)")
        let service = try service(in: folder)
        let http = ServiceHTTP(service)
        var policy = UploadPolicy()
        policy.limits.maxChanges = 2
        let a = try device(http, seed: 1, waits: .onceNamed, policy: policy)
        let b = try device(http, seed: 2, waits: .onceNamed, policy: policy)
        // The epoch is known, so that a row could be made of what follows.
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        try await a.write("INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
        try await a.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'Sowing', 'b-1')")
        for number in 1...5 {
            try await a.write("INSERT INTO card (id, name, pos, idList) VALUES ('c-\(number)', 'Peas', 1.5, 'l-1')")
        }
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        let list = try #require(try a.store.serverIDs(of: [RecordKey("list", "l-1")]).values.first)
        let bodies = http.requests.filter { $0.contains("\"card\"") }
        #expect(!bodies.isEmpty && bodies.allSatisfy { $0.contains("\"idList\":{\"new\":\"\(list)\"") })
        #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
        try await b.write("UPDATE card SET name = 'Beans'")
        #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        let cards = try a.rows("card")
        #expect(cards.count == 5 && cards.allSatisfy { $0.contains("Beans") && $0.contains("l-1") })
        try await a.end()
        try await b.end()
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("IDS-01 each request of a row that waits for names takes its page in: nothing is told twice")
    func pages() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ids-\(UUID().uuidString)")
        let service = try service(in: folder)
        let http = ServiceHTTP(service)
        let a = try device(http, seed: 1)
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        try await a.write("INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
        for number in 1...6 {
            try await a.write("INSERT INTO list (id, name, idBoard) VALUES ('l-\(number)', 'L', 'b-1')")
            try await a.write("INSERT INTO card (id, name, pos, idList) VALUES ('c-\(number)', 'C', 1, 'l-\(number)')")
        }
        let summary = try await a.engine.sync(for: .seconds(3_600))
        #expect(summary.isInStep)
        // One board, six times a list with the card of the list before, and the last card.
        let pushes = http.requests.filter { $0.contains("changeID") }
        #expect(pushes.count == 8)
        let checkpoints = pushes.compactMap { body in
            body.split(separator: "\"lastSyncVersion\":").last.flatMap { Int64($0.prefix { $0.isNumber }) }
        }
        #expect(checkpoints.count == 8 && zip(checkpoints.dropFirst(), checkpoints.dropFirst(2)).allSatisfy { $0 < $1 })
        // Of thirteen records each comes once, the last one not at all.
        #expect(summary.report.received <= 13)
        try await a.end()
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("IDS-01 what was claimed and never left is as it was before, unless a newer claim has it by then")
    func leftOut() async throws {
        let device = try Device(ScriptedExchange([]), seed: 1)
        try await device.write("INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
        try await device.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'L', 'b-1')")
        let queue = UploadQueue(log: device.store)
        guard case .batch(let first) = try await queue.take(urgency: .user) else {
            Issue.record("Both may go.")
            return
        }
        let verdict = Verdict.applied(version: 1, overwrote: [:], serverID: "S1")
        let results = [ChangeResult(changeID: first.changes[0].change.id, verdict: verdict)]
        let next = try await queue.settle(
            first, results: results, sent: 1, stamp: nil, backoffSeconds: nil, urgency: .user)
        guard case .batch(let second) = next else {
            Issue.record("The list may go.")
            return
        }
        #expect(second.changes.map(\.change.record) == [RecordKey("list", "l-1")])
        #expect(second.changes.map(\.wasSent) == [false])
        // An answer to the older claim comes late: the list is under way by now.
        _ = try await queue.settle(first, results: [], sent: 0, stamp: nil, backoffSeconds: nil, urgency: .user)
        #expect(try await device.store.queued().map(\.state) == [.uploading])
        // Not sent in the second try either, it is not known whether the first was done.
        _ = try await queue.settle(second, results: [], stamp: nil, backoffSeconds: nil, urgency: .routine)
        guard case .batch(let third) = try await queue.take(urgency: .user) else {
            Issue.record("The list may go again.")
            return
        }
        #expect(third.changes.map(\.wasSent) == [true])
        _ = try await queue.settle(third, results: [], sent: 0, stamp: nil, backoffSeconds: nil, urgency: .routine)
        #expect(try await device.store.queued().map(\.state) == [.uncertain])
        try await device.end()
    }

    @Test("IDS-01, NET-01 the answer that named a record was lost, and what was done with the record since did not win")
    func lostName() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ids-\(UUID().uuidString)")
        let service = try service(in: folder)
        let http = ServiceHTTP(service)
        let (a, b) = (try device(http, seed: 1, waits: .onceNamed), try device(http, seed: 2, waits: .onceNamed))
        try await b.write("INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
        #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        try await b.write("DELETE FROM board")
        #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
        http.loseAnswers(true)
        try await a.write("INSERT INTO list (id, name, idBoard) SELECT 'l-1', 'Sowing', id FROM board")
        try await a.write("INSERT INTO board (id, name) VALUES ('b-2', 'Kitchen garden')")
        _ = await a.engine.syncNow()
        try await a.write("UPDATE list SET name = 'Planting'")
        try await a.write("INSERT INTO card (id, name, idList) VALUES ('c-1', 'Peas', 'l-1')")
        _ = await a.engine.syncNow()
        try await a.write("UPDATE list SET idBoard = 'b-2'")
        http.loseAnswers(false)
        // One round for each level of new records; nobody waits here, as the clock stands.
        for _ in 1...4 { _ = await a.engine.syncNow() }
        try #require(try await a.store.queued().isEmpty)
        #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
        for (entity, name) in [("board", "Kitchen garden"), ("list", "Planting"), ("card", "Peas")] {
            let (here, there) = (try a.rows(entity), try b.rows(entity))
            #expect(here.count == 1 && here[0].contains(name), "\(here)")
            #expect(there.count == 1 && there[0].contains(name), "\(there)")
        }
        #expect(try a.rows("list") == ["id=\"l-1\" name=\"Planting\" idBoard=\"b-2\""])
        #expect(try a.rows("card")[0].contains("l-1"))
        try await a.end()
        try await b.end()
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("IDS-01, DL-21, NET-01 a root that was asked for before its device was told its other id is whole afterwards")
    func unnamedRoot() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ids-\(UUID().uuidString)")
        let service = try service(in: folder)
        let http = ServiceHTTP(service)
        let (a, b) = (try device(http, seed: 1), try device(ServiceHTTP(service), seed: 2))
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        http.loseAnswers(true, toPushes: true)
        try await a.write("INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
        _ = await a.engine.syncNow()
        for name in ["Sowing", "Harvest"] {
            #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
            try await b.write("INSERT INTO list (id, name, idBoard) SELECT '\(name)', '\(name)', id FROM board")
            #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
            // What the server calls otherwise it does not know: nothing of it comes.
            try await a.engine.setScopes([RecordKey("board", "b-1")])
            _ = await a.engine.syncNow()
        }
        #expect(try a.rows("board") == ["id=\"b-1\" name=\"Garden\" desc=NULL"])
        http.loseAnswers(false)
        for _ in 1...3 { _ = await a.engine.syncNow() }
        #expect(try await a.store.queued().isEmpty)
        #expect(try a.rows("board") == ["id=\"b-1\" name=\"Garden\" desc=NULL"])
        let lists = try a.rows("list")
        #expect(lists.count == 2 && lists.allSatisfy { $0.contains("b-1") }, "\(lists)")
        try await a.end()
        try await b.end()
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test("IDS-01 records, children and edits reach a server that makes its own ids; on the device no id changes")
    func wholeWay() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ids-\(UUID().uuidString)")
        let service = try service(in: folder)
        let http = ServiceHTTP(service)
        let (a, b) = (try device(http, seed: 1), try device(http, seed: 2))
        try await a.write("INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
        try await a.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'Sowing', 'b-1')")
        try await a.write("INSERT INTO card (id, name, pos, idList) VALUES ('c-1', 'Peas', 1.5, 'l-1')")
        try await a.write("UPDATE board SET name = 'Kitchen garden' WHERE id = 'b-1'")
        let pushed = try await a.engine.sync(for: .seconds(3_600))
        #expect(pushed.isInStep)
        let before = try a.rows("card")
        #expect(before.count == 1 && before[0].contains("l-1"))
        let names: Set<RecordKey> = [RecordKey("board", "b-1"), RecordKey("list", "l-1"), RecordKey("card", "c-1")]
        let mapped = try a.store.serverIDs(of: names)
        #expect(Set(mapped.keys) == names)
        #expect(mapped.values.allSatisfy { $0.utf8.count == 24 })
        let list = try #require(mapped[RecordKey("list", "l-1")])
        // The child went out under the server's id, and never under the device's.
        #expect(http.requests.contains { $0.contains("\"idList\":{\"new\":\"\(list)\"") })
        #expect(!http.requests.contains { $0.contains("\"idList\":{\"new\":\"l-1\"") })
        // Another device sees the server's ids; its edits come back under this one's.
        _ = try await b.engine.sync(for: .seconds(3_600))
        try await b.write("UPDATE card SET name = 'Beans'")
        #expect(try await b.engine.sync(for: .seconds(3_600)).isInStep)
        #expect(try await a.engine.sync(for: .seconds(3_600)).isInStep)
        let card = try a.rows("card")
        #expect(card.count == 1 && card[0].contains("Beans") && card[0].contains("c-1") && card[0].contains("l-1"))
        try await a.end()
        try await b.end()
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test(
        "IDS-01 after the server named a record and the app was started anew, edits and children go under its id alone")
    func afterAStart() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ids-\(UUID().uuidString)")
        let service = try service(in: folder)
        let http = ServiceHTTP(service)
        let first = try device(http, seed: 1)
        try await first.write("INSERT INTO board (id, name) VALUES ('board-here', 'Garden')")
        for name in ["A", "B", "C"] { try await first.write("UPDATE board SET name = '\(name)'") }
        try await first.write("INSERT INTO list (id, name, idBoard) VALUES ('list-here', 'Sowing', 'board-here')")
        #expect(try await first.engine.sync(for: .seconds(3_600)).isInStep)
        let path = first.store.database.path
        try await first.store.close()
        let sent = http.requests.count

        var settings = StoreConfiguration()
        settings.clock = ManualWallClock()
        settings.executor = FileExecutor()
        let store = try Store(path: path, schema: Device.parsed, configuration: settings)
        let map = LateMap()
        map.store = store
        let engine = SyncEngine(
            store: store,
            exchange: IDTranslatingExchange(
                try BatchExchange(endpoint: "https://localhost", http: http), schema: Device.parsed, translation: map),
            wallClock: ManualWallClock())
        let names: Set<RecordKey> = [RecordKey("board", "board-here"), RecordKey("list", "list-here")]
        let mapped = try store.serverIDs(of: names)
        #expect(Set(mapped.keys) == names)
        try await store.write { db in
            try db.execute(
                sql: """
                    UPDATE board SET name = 'Kitchen garden';
                    UPDATE list SET name = 'Planting';
                    INSERT INTO list (id, name, idBoard) VALUES ('other-list', 'Harvest', 'board-here');
                    INSERT INTO card (id, name, idList) VALUES ('new-card', 'Peas', 'list-here');
                    """)
        }
        #expect(try await engine.sync(for: .seconds(3_600)).isInStep)
        let bodies = http.requests.dropFirst(sent)
        #expect(bodies.contains { $0.contains("Harvest") } && bodies.contains { $0.contains("Peas") })
        for (key, id) in mapped {
            #expect(!bodies.contains { $0.contains(key.id) }, "\(key)")
            #expect(bodies.contains { $0.contains("\"\(id)\"") }, "\(key)")
        }
        let lists = try await store.database.read { try String.fetchAll($0, sql: "SELECT id FROM list ORDER BY id") }
        #expect(lists == ["list-here", "other-list"], "inside the app no id changes")
        try await store.close()
        try FileManager.default.removeItem(at: URL(fileURLWithPath: path).deletingLastPathComponent())
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }
}
