import Foundation
import GRDB
import HTTPTypes
import Logging
import SyncCore
import SyncServer
import SyncTesting
import Transport

/// The reference server's real core over a real file, reached through the real codec and an HTTP that is a call.
final class ReferenceServer: SimulatedServer, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    let answersInBytes = true
    private let folder: DeviceFolder
    private let configuration: ServerConfiguration
    private let clock: ManualWallClock
    private let virtual: VirtualClock
    private let seed: UInt64
    private let ids: CanonicalIDs
    private let rules: Rules
    private let record: Record
    private var service: SyncService
    private var connections: [String: Connection] = [:]
    /// Under which parent a device's store says that the server has a record.
    var parentID: (_ device: Int, RecordKey) async -> String? = { _, _ in nil }
    /// Under which it was asked for, by the keys of changes: a copy of a request asks for the same.
    private var parents: [String: String] = [:]
    /// The stamp of the last change that came alone, by account: the server's order decides there.
    private var stamps: [String: Stamp] = [:]
    private var kept: [String: Data]?
    private var starts: UInt64 = 0
    /// By account, as is what was found.
    private var shadows: [String: Shadow] = [:]
    private let schema: Schema
    private let life: ServerLife
    /// What ``records`` found last; dropped with each request and each restart.
    private var known: [String: [ServerRecord]] = [:]
    /// What it calls them, where that is not the canonical id.
    private var names: [String: LocalIDs] = [:]
    /// Whether it knows no more of some records under which ids devices asked for them.
    private var hasLostNames = false
    /// Keys of refused changes that the shadows were not told.
    private var untold: Set<String> = []

    /// What is to become of changes; read by the service's policy.
    final class Rules: @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        var ruling: @Sendable (String) -> ModelServer.Ruling = { _ in .decide }
    }

    init(
        folder path: String, schema: Schema, clock: ManualWallClock, virtual: VirtualClock,
        seed: UInt64, record: Record, maxChanges: Int, ids: CanonicalIDs = CanonicalIDs(), bug: PlantedBug?
    ) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        folder = DeviceFolder(path: path)
        life = ServerLife(folder: folder, forgetsLastCommit: bug == .serverForgetsLastCommit)
        self.clock = clock
        self.virtual = virtual
        self.seed = seed
        self.ids = ids
        self.record = record
        let rules = Rules()
        self.rules = rules
        self.schema = schema
        let entities = schema.entities.map { entity in
            ServerEntity(
                entity.name, collection: Self.collection(entity),
                parents: entity.parents.map { .init(field: $0.name, entity: $0.reference?.entity ?? "") },
                references: entity.fields.compactMap { field in
                    guard let other = field.reference, !other.isParent else { return nil }
                    return .init(field: field.name, entity: other.entity)
                })
        }
        var limits = ServerLimits()
        limits.dirtyRecords = maxChanges
        var configuration = ServerConfiguration(
            entities: entities, limits: limits, synchronous: .normal, makesIDs: ids.areTwo
        ) { _, question in
            switch rules.ruling(question.changeID) {
            case .decide: .allow
            case .reject(let rejection): .forbid(message: rejection.message)
            case .retry(let seconds): .later(seconds: seconds)
            }
        }
        configuration.idOfNew = CanonicalIDs.server
        self.configuration = configuration
        service = try SyncService(
            path: path + "/server.sqlite", configuration: configuration, clock: clock,
            randomness: SeededRandomness(seed: seed ^ 0xfe))
        try service.onStatement { [life] in try life.statement() }
    }

    /// A device's way in: the same wire for both dialects.
    private struct Connection {
        let wire: InProcessHTTP
        let exchange: BatchExchange
        let single: RESTSender
    }

    func answer(
        _ request: ExchangeRequest, device: Int, account: String, tokens: DeviceTokens?, way: Way
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        let connection: Connection
        do { connection = try self.connection(device, account, tokens) } catch {
            throw ExchangeFailure(kind: .unknown, message: "\(error)")
        }
        connection.wire.isBusy = true
        defer { connection.wire.isBusy = false }
        connection.wire.fault = way.fault
        connection.wire.status = way.status
        connection.wire.asked = request
        connection.wire.tokens = tokens
        guard way.isSingle else { return try await connection.exchange.exchange(request) }
        return try await answer(single: request, over: connection.single)
    }

    /// One change, as one request of the REST dialect; a probe, where there is none. No such answer has a history or a page.
    private func answer(
        single request: ExchangeRequest, over sender: RESTSender
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        var results: [ChangeResult] = []
        if request.changes.isEmpty {
            try await sender.probe()
        } else {
            results = try await sender.send(request.changes, deviceID: request.deviceID)
        }
        return ExchangeAnswer(
            dataset: request.dataset, epoch: request.epoch ?? present,
            currentSyncVersion: results.compactMap(\.madeVersion).max() ?? request.lastSyncVersion, hasMore: true,
            results: results, page: ArrayPage([]))
    }

    private func connection(
        _ device: Int, _ account: String, _ tokens: DeviceTokens?
    ) throws -> Connection {
        // What is on its way already proves nothing, and has a connection of its own: the device's keeps the device's tokens.
        var name = "\(device) \(account)\(tokens == nil ? ", on its way" : "")"
        while let known = connections[name] {
            guard known.wire.isBusy else { return known }
            name += ", beside that"
        }
        let wire = InProcessHTTP { [unowned self] request, body in
            self.serve(request, body, account)
        }
        let logger = Logger(label: "simulator", factory: { _ in SwiftLogNoOpLogHandler() })
        let credentials: any Credentials = tokens ?? FixedCredentials(nil)
        let exchange = try BatchExchange(
            endpoint: Self.endpoint, http: wire, credentials: credentials, clock: virtual, wallClock: clock,
            ids: SeededIDs(seed: seed ^ UInt64(device)), logger: logger)
        let single = try RESTSender(
            endpoint: Self.endpoint, mappings: mappings, http: wire, credentials: credentials,
            parentID: { [unowned self] in await parent(of: $0, for: device, over: wire) }, clock: virtual,
            wallClock: clock, ids: SeededIDs(seed: seed ^ UInt64(device) ^ 1 << 32), logger: logger)
        wire.onReply = { [unowned self] asked, request, reply in
            if request.isBatch {
                self.tell(asked, reply.body, account)
            } else {
                self.tell(asked, request, reply, account)
            }
        }
        let connection = Connection(wire: wire, exchange: exchange, single: single)
        connections[name] = connection
        return connection
    }

    private static let endpoint = "https://server.invalid"

    private static func collection(_ entity: EntitySchema) -> String { entity.name + "s" }

    /// How records stand in the REST dialect: in half of the seeds, those with one parent are reached through it.
    private var mappings: [String: RESTMapping] {
        Dictionary(
            uniqueKeysWithValues: schema.entities.map { entity in
                var mapping = RESTMapping(collection: Self.collection(entity))
                if seed % 2 == 0, entity.parents.count == 1, let field = entity.parents.first,
                    let above = field.reference.flatMap({ schema[$0.entity] })
                {
                    mapping.parent = .init(collection: Self.collection(above), field: field.name)
                }
                return (entity.name, mapping)
            })
    }

    private func parent(of record: RecordKey, for device: Int, over wire: InProcessHTTP) async -> String? {
        guard let key = wire.asked?.changes.first(where: { $0.record == record })?.id else { return nil }
        // What is on its way already has the path that it has.
        if wire.tokens == nil { return parents[key] }
        let parent = await parentID(device, record)
        parents[key] = parent
        return parent
    }

    /// The reply to a request, and whether it leaves a server that lives.
    private func serve(
        _ request: HTTPRequest, _ body: [UInt8], _ account: String
    ) -> (reply: ServerReply, leaves: Bool) {
        // Only now: a request is under way for some jobs, in which somebody may look.
        known[account] = nil
        do {
            try life.begins()
            let reply =
                request.isBatch
                ? service.sync(account: account, body: body)
                : service.rest(account: account, request: RESTRequest(request, body))
            guard let death = try life.ends() else { return (reply, true) }
            record.cover(death.kind == .atStatement ? .serverCrashAtStatement : .serverCrashAfterCommit)
            record.struck("server crash")
            record.note("the server dies at statement \(life.statements), in request \(life.requests)")
            let before = present
            restart { try folder.putBack(death.picture) }
            if present != before { record.violate("server", "its death made another epoch of \(before): \(present)") }
            return (death.kind == .atStatement ? ServerReply(status: 503) : reply, false)
        } catch {
            record.violate("server", "\(error)")
            return (ServerReply(status: 503), false)
        }
    }

    func suffer(_ fault: FaultTape.ServerFault) {
        switch fault {
        case .crashAtStatement(let number): life.statementCrashes.insert(number)
        case .crashAfterRequest(let number): life.requestCrashes.insert(number)
        }
    }

    func heal() { (life.statementCrashes, life.requestCrashes) = ([], []) }

    /// The shadow hears what was decided, whether the answer arrives or not.
    private func tell(_ request: ExchangeRequest, _ body: [UInt8], _ account: String) {
        guard case .array(let list)? = Self.json(body)?["results"] else { return }
        let results = list.compactMap(Self.result)
        let done = Set(results.lazy.filter(\.isDone).map(\.changeID))
        let retried = Set(results.lazy.filter(\.isRetried).map(\.changeID))
        var request = request
        if ids.areTwo { leaveOut(of: &request, results, account) }
        for part in ids.parts(of: request, isDone: done.contains, isRetried: retried.contains) {
            for difference in shadow(account).differences(part, results) {
                record.violate("verdict", "of the reference server: \(difference)")
            }
        }
    }

    /// The same for a change that came alone: the shadow is told what was done, in the order in which it came.
    private func tell(_ asked: ExchangeRequest, _ request: HTTPRequest, _ reply: ServerReply, _ account: String) {
        guard let key = request.headerFields[.init("Idempotency-Key")!],
            var change = asked.changes.first(where: { key == "\"\($0.id)\"" }),
            !reply.headers.contains(where: { $0.name == "Idempotency-Replayed" })
        else { return }
        // Nothing is done to what is not there.
        guard change.operation != .delete || shadow(account).shows(ids.key(change.record)) else { return }
        let now = Stamp(milliseconds: UInt64(max(0, clock.nowMilliseconds)), counter: 0)
        let stamp = max(stamps[account]?.successor ?? .zero, now)
        stamps[account] = stamp
        change.stamp = stamp
        for name in change.fields.keys { change.fields[name]?.stamp = nil }  // any order
        var told = asked
        told.changes = [change]
        let isDead = Self.json(reply.body)?["deleted"] == .bool(true)
        let done = ChangeResult(
            changeID: change.id,
            verdict: isDead
                ? .merged(record: ServerRecord(key: change.record, version: 0, presence: .deleted))
                : .applied(version: nil, overwrote: [:], serverID: nil))
        for part in ids.parts(of: told, isDone: { _ in true }, isRetried: { _ in false }) {
            for difference in shadow(account).differences(part, [done]) {
                record.violate("verdict", "of the reference server: \(difference)")
            }
        }
    }

    /// Leaves out what the shadow takes for something else, since it knows one name of each record, with its unit, of which nothing was
    /// done then (seed 16830 with `--server-ids`), and what waits for that.
    private func leaveOut(of request: inout ExchangeRequest, _ results: [ChangeResult], _ account: String) {
        let verdicts = Dictionary(results.map { ($0.changeID, $0) }, uniquingKeysWith: { first, _ in first })
        let others = request.changes.filter { change in
            verdicts[change.id].map { isOther(change, $0) || missesItsRecord(change, $0, in: request, account) }
                ?? false
        }
        untold.formUnion(others.lazy.map(\.id))
        let units = Set(others.compactMap(\.unit))
        var left = Set(others.map(\.id))
        request.changes.removeAll { change in
            let isOfThese = left.contains(change.id) || change.unit.map(units.contains) ?? false
            guard isOfThese || verdicts[change.id]?.blocker.map(left.contains) ?? false else { return false }
            left.insert(change.id)
            return true
        }
    }

    /// Whether a change was asked before by the name of what was given up, and is now by that of what was made anew (seed 222 with
    /// `--server-ids`), or by a name that was lost with the history in which its record was made (958), then or before (502377).
    private func isOther(_ change: Change, _ result: ChangeResult) -> Bool {
        result.isKeyReused && (untold.contains(change.id) || names(change).contains { record.isGivenUp(ids.key($0)) })
            || hasLostNames && result.namesNothing && names(change).contains { ids.key($0) == $0 }
    }

    /// Whether a delete by such a name found nothing, where the record lives that it meant (seed 3630051 with `--server-ids --conditions
    /// --bias histories`).
    private func missesItsRecord(
        _ change: Change, _ result: ChangeResult, in request: ExchangeRequest, _ account: String
    ) -> Bool {
        hasLostNames && result.findsNothing && ids.key(change.record) == change.record
            && !request.changes.contains { $0.record == change.record && $0.id != change.id }
            && shadow(account).shows(change.record)
    }

    /// The record of a change, unless it makes it, and those that it refers to, as they are asked for.
    private func names(_ change: Change) -> [RecordKey] {
        let entity = schema[change.record.entity]
        let references = change.fields.compactMap { name, delta -> RecordKey? in
            guard let target = entity?.field(name)?.reference?.entity, case .string(let id) = delta.new else {
                return nil
            }
            return RecordKey(target, id)
        }
        return references + (change.operation == .create ? [] : [change.record])
    }

    /// As much of a verdict as the shadow compares.
    private static func result(_ value: FieldValue) -> ChangeResult? {
        guard case .object(let members) = value, case .string(let key)? = members["changeID"],
            case .string(let word)? = members["verdict"]
        else { return nil }
        let isDuplicate = word == "duplicate"
        let first: String =
            if isDuplicate, case .string(let first)? = members["first"] { first } else { word }
        let nothing = ServerRecord(key: RecordKey("", ""), version: 0)
        let verdict: Verdict
        switch first {
        case "applied": verdict = .applied(version: nil, overwrote: [:], serverID: nil)
        case "merged": verdict = .merged(record: nothing)
        case "conflict": verdict = .conflict(record: nothing)
        case "blocked":
            let by: String = if case .string(let id)? = members["by"] { id } else { "" }
            verdict = .blocked(by: by)
        case "retry": verdict = .retry(afterSeconds: nil)
        default:
            var code = Rejection.Code.invalid
            if case .object(let error)? = members["error"], case .string(let text)? = error["code"] {
                code = Rejection.Code(rawValue: text)
            }
            verdict = .rejected(Rejection(code: code, message: ""))
        }
        var result = ChangeResult(changeID: key, verdict: verdict)
        result.isDuplicate = isDuplicate
        result.isClamped = members["clamped"] == .bool(true)
        return result
    }

    private func shadow(_ account: String) -> Shadow {
        if let known = shadows[account] { return known }
        let shadow = Shadow(schema: schema, clock: clock, makesIDs: ids.areTwo)
        shadows[account] = shadow
        return shadow
    }

    func wrongValues() -> [String] {
        shadows.keys.sorted().flatMap {
            // A change that came alone says the whole set.
            shadow($0).differences(records(of: $0)) { stamps.isEmpty ? nil : schema[$1]?.field($0)?.rule }
        }
    }

    var asksForTokens: Bool { true }
    var accounts: [String] { shadows.keys.sorted() }

    func epoch(of account: String) -> String { present }

    private var present: String {
        do { return try service.epoch } catch { return "\(error)" }
    }

    /// Read as a device would that never synced: by a request of its own.
    func records(of account: String) -> [ServerRecord] {
        if let known = known[account] { return known }
        let found = look(account)
        known[account] = found
        return found
    }

    func id(of record: RecordKey, in account: String) -> String {
        _ = records(of: account)
        return names[account]?.key(record).id ?? record.id
    }

    private func look(_ account: String) -> [ServerRecord] {
        var found: [ServerRecord] = []
        var (checkpoint, hasMore) = (Int64(0), true)
        life.isLookedAt = true
        defer { life.isLookedAt = false }
        while hasMore {
            let body = """
                {"protocol":1,"cycleID":"look","deviceID":"looker","lastSyncVersion":\(checkpoint),"limit":2000,"dirtyRecords":[]}
                """
            let reply = service.sync(account: account, body: Array(body.utf8))
            guard reply.status == 200, let answer = Self.json(reply.body),
                case .bool(let more)? = answer["hasMore"],
                case .int(let version)? = answer["currentSyncVersion"],
                case .array(let page)? = answer["changedRecords"]
            else { return [] }
            for record in page.compactMap(Self.record) {
                let canonical = ids.record(record)
                if ids.areTwo { names[account, default: LocalIDs()].note(record.key.id, of: canonical.key) }
                found.append(canonical)
            }
            (hasMore, checkpoint) = (more && version > checkpoint, version)
        }
        return found
    }

    private static func json(_ bytes: [UInt8]) -> [String: FieldValue]? {
        do {
            guard case .object(let members) = try FieldValue(json: bytes) else { return nil }
            return members
        } catch { return nil }  // kept: a spoilt answer; the device is judged by what it makes of it
    }

    private static func record(_ value: FieldValue) -> ServerRecord? {
        guard case .object(let members) = value, case .string(let entity)? = members["entity"],
            case .string(let id)? = members["id"], case .int(let version)? = members["version"]
        else { return nil }
        let fields: [String: FieldValue] =
            if case .object(let fields)? = members["fields"] { fields } else { [:] }
        let isDead = members["deleted"] == .bool(true)
        return ServerRecord(
            key: RecordKey(entity, id), version: version, presence: isDead ? .deleted : .live,
            fields: fields)
    }

    func rule(_ ruling: @escaping @Sendable (String) -> ModelServer.Ruling) { rules.ruling = ruling }

    func backUp() {
        restart { kept = try folder.photograph() }
        for shadow in shadows.values { shadow.backUp() }  // any order
    }

    /// An operator puts the older files in place; the version that was handed out is kept beside them and tells.
    func restore() -> Bool {
        guard let kept else { return false }
        restart {
            let version = try folder.photograph().filter { $0.key.hasSuffix(".version") }
            try folder.putBack(kept.merging(version) { $1 })
        }
        hasLostNames = true
        // An account that came later has nothing.
        for (account, shadow) in shadows where !shadow.restore() { shadows[account] = nil }  // any order
        return true
    }

    /// Prunes as if the time were over for which tombstones are kept: dead records go altogether, in each run those under which
    /// nothing stands any more.
    func forgetTombstones() -> Bool {
        var over = configuration
        over.retention.tombstones = 0
        var kept: [String: Set<RecordKey>] = [:]
        var hasForgotten = false
        restart {
            let path = folder.path + "/server.sqlite"
            let before = try self.known(path)
            let pruning = try SyncService(
                path: path, configuration: over, clock: clock, randomness: SeededRandomness(seed: seed))
            for _ in schema.entities { try pruning.prune() }
            try pruning.close()
            kept = try self.known(path)
            hasForgotten = kept != before
            record.note(
                "the server forgets \(before.values.map(\.count).reduce(0, +) - kept.values.map(\.count).reduce(0, +)) records"
            )
        }
        for account in shadows.keys.sorted() { shadow(account).forget { kept[account]?.contains($0) != true } }
        if hasForgotten { record.cover(.tombstonesPruned) }
        return hasForgotten
    }

    /// The records of each account in a closed server's file, also those of which only deletes came.
    private func known(_ path: String) throws -> [String: Set<RecordKey>] {
        let database = try DatabaseQueue(path: path)
        let sql = "SELECT account.name, entity, id FROM record JOIN account ON account.n = record.account"
        let rows = try database.read { try Row.fetchAll($0, sql: sql) }
        try database.close()
        return rows.reduce(into: [:]) { $0[$1[0], default: []].insert(ids.key(RecordKey($1[1], $1[2]))) }
    }

    private func restart(_ between: () throws -> Void) {
        known = [:]
        do {
            try service.close()
            try between()
            starts += 1
            service = try SyncService(
                path: folder.path + "/server.sqlite", configuration: configuration, clock: clock,
                randomness: SeededRandomness(seed: seed ^ 0xfe ^ starts << 8))
            try service.onStatement { [life] in try life.statement() }
        } catch { record.violate("server", "it could not be started again: \(error)") }
    }
}
