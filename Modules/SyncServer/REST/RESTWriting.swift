internal import SyncCore

/// Answers `POST`, `PUT` and `DELETE` within one transaction: key, precondition, change, record, stored answer.
struct RESTWriting {
    let service: SyncService
    let store: ServerStore
    private(set) var account: AccountContext
    let deviceName: String
    let now: Int64
    private(set) var notice: CommitNotice?

    init(service: SyncService, store: ServerStore, account: AccountContext, device: String, now: Int64) {
        self.service = service
        self.store = store
        self.account = account
        deviceName = device
        self.now = now
    }

    private var limits: ServerLimits { service.configuration.limits }
    private var reader: RecordReader { RecordReader(store: store, account: account, rules: service.rules) }

    mutating func answer(_ path: RESTPath, _ request: RESTRequest, key: String?) throws -> ServerReply {
        guard let key else { return try perform(path, request) }
        let digest = digest(of: request)
        let replies = ReplyStore(store: store)
        if let device = try store.device(deviceName, of: account) {
            if let known = try replies.reply(device: device, key: key) {
                guard known.digest == digest || known.digest == self.digest(of: request, asWritten: true) else {
                    return Self.keyReused.reply
                }
                return repeated(known)
            }
            if try replies.isUsedBySync(device: device, key: key) { return Self.keyReused.reply }
        }
        let reply = try perform(path, request)
        // 409, 412 and 5xx decide nothing, and what could not be read is no request.
        guard (200..<300).contains(reply.status) || [403, 404, 422].contains(reply.status) else { return reply }
        var device = try store.makeDevice(deviceName, of: account)
        let stored = StoredReply(status: reply.status, etag: reply[header: "ETag"], body: reply.body, digest: digest)
        try replies.write(stored, device: &device, key: key, now: now)
        account.devices[deviceName] = device
        return reply
    }

    /// Tombstones went in the same transaction.
    mutating func raiseOldest(_ oldest: [Int64: Int64]) {
        account.oldest = max(account.oldest, oldest[account.row] ?? 0)
    }

    private static let keyReused = Problem(
        status: 422, code: "keyReused", detail: "the key was used for another request")

    private func repeated(_ known: StoredReply) -> ServerReply {
        var headers: [ServerReply.Header] = []
        if !known.body.isEmpty {
            let type = known.status < 300 ? "application/json" : "application/problem+json"
            headers.append(.init("Content-Type", type))
        }
        if let etag = known.etag { headers.append(.init("ETag", etag)) }
        headers.append(.init("Idempotency-Replayed", "true"))
        return ServerReply(status: known.status, headers: headers, body: known.body)
    }

    /// - Parameter asWritten: Path and query byte by byte: so earlier versions noted them, and a repetition may come later.
    private func digest(of request: RESTRequest, asWritten: Bool = false) -> ContentDigest {
        var digest = ContentDigest()
        digest.add(text: request.method)
        digest.add(text: asWritten ? request.path : FormCoding.plainest(path: request.path))
        digest.add(text: asWritten ? request.query : FormCoding.plainest(query: request.query))
        do {
            var reader = JSONReader(request.body)
            reader.wantsStreamSafeNames = true
            let value = try reader.readValue()
            try reader.finish()
            digest.add(value: value)
        } catch {
            digest.add(bytes: request.body)
        }
        return digest
    }

    // MARK: - The change

    private mutating func perform(_ path: RESTPath, _ request: RESTRequest) throws -> ServerReply {
        do {
            let match = request[header: "If-Match"]
            switch (request.method, path) {
            case ("POST", .collection(let entity)): return try create(entity, under: nil, request)
            case ("POST", .children(let parent, let entity)): return try create(entity, under: parent, request)
            case ("PUT", .record(let key)): return try update(key, request, match)
            case ("PUT", .child(let key, let parent)):
                try checkPlace(of: key, under: parent, match)
                return try update(key, request, match)
            case ("DELETE", .record(let key)): return try delete(key, match)
            case ("DELETE", .child(let key, let parent)):
                guard try reader.record(key) != nil else { return ServerReply(status: 204) }
                try checkPlace(of: key, under: parent, match)
                return try delete(key, match)
            default: throw Problem.notFound
            }
        } catch let problem as Problem {
            return problem.reply
        }
    }

    private func content(_ entity: String, _ request: RESTRequest) throws -> RESTBody.Content {
        guard let declared = service.configuration.entities.first(where: { $0.name == entity }) else {
            throw Problem.notFound
        }
        return try RESTBody(
            entity: declared, limits: limits, protectedFields: service.configuration.protectedFields
        ).read(request)
    }

    private mutating func create(_ entity: String, under parent: RecordKey?, _ request: RESTRequest) throws
        -> ServerReply
    {
        var content = try content(entity, request)
        if let parent { try put(parent, into: &content, of: entity) }
        if let id = content.id, !RecordID.isAllowed(id) {
            throw Problem(status: 422, code: "invalid", detail: "the id is none (a UUID is written in lower case)")
        }
        let id = service.configuration.makesIDs ? service.makeRecordID() : content.id ?? service.makeUUID()
        let key = RecordKey(entity, id)
        try decide(.create, key, content.fields.map { field($0.name, $0.value) })
        return try shown(key, status: 201)
    }

    /// The parent of the path is the parent of the record.
    private func put(_ parent: RecordKey, into content: inout RESTBody.Content, of entity: String) throws {
        guard let reference = service.rules[entity]?.parents.first(where: { $0.entity == parent.entity }) else {
            throw Problem.notFound
        }
        if let told = content.fields.first(where: { $0.name == reference.field }) {
            guard told.value == .string(parent.id) else {
                throw Problem(status: 422, code: "invalid", detail: "\(reference.field) is not the path's")
            }
            return
        }
        content.fields.append((reference.field, .string(parent.id)))
        content.fields.sort { $0.name < $1.name }
    }

    private mutating func update(_ key: RecordKey, _ request: RESTRequest, _ match: String?) throws -> ServerReply {
        let present = try reader.record(key)
        try checkMatch(match, present)
        guard let present, !present.isDead else { throw Problem.notFound }
        var content = try content(key.entity, request)
        if let id = content.id, id != key.id {
            throw Problem(status: 422, code: "invalid", detail: "the id is not the path's")
        }
        try giveKinds(&content, as: present)
        try decide(.update, key, content.fields.map { field($0.name, $0.value) })
        return try shown(key, status: 200)
    }

    /// Text from a query takes the kind of the value that the record has.
    private func giveKinds(_ content: inout RESTBody.Content, as present: FlatRecord) throws {
        guard !content.texts.isEmpty, case .object(let values) = try FieldValue(json: present.fields, maximumDepth: 128)
        else { return }
        for index in content.fields.indices where content.texts.contains(content.fields[index].name) {
            guard case .string(let text) = content.fields[index].value else { continue }
            let kind: ServerEntity.QueryKind
            switch values[content.fields[index].name] {
            case .bool?: kind = .boolean
            case .int?, .double?: kind = .number
            case .array?, .object?, .data?: kind = .json
            case .string?, .null?, nil: continue
            }
            if text.isEmpty || text == "null" {
                content.fields[index].value = .null
            } else if let value = RESTBody.value(of: text, as: kind, depth: limits.valueDepth) {
                content.fields[index].value = value
            }
        }
    }

    private mutating func delete(_ key: RecordKey, _ match: String?) throws -> ServerReply {
        guard let present = try reader.record(key), !present.isDead else { return ServerReply(status: 204) }
        try checkMatch(match, present)
        try decide(.delete, key, [])
        return ServerReply(status: 204)
    }

    /// A path that goes through another parent leads to nothing; but to who says a version, which the record has no more, it is shown
    /// where that stands now.
    private func checkPlace(of key: RecordKey, under parent: RecordKey, _ match: String?) throws {
        guard try !reader.stands(key, under: parent) else { return }
        try checkMatch(match, reader.record(key))
        throw Problem.notFound
    }

    private func checkMatch(_ match: String?, _ present: FlatRecord?) throws {
        guard match != nil, let present else { return }
        let version = present.isDead ? nil : present.version
        guard !Preconditions.allowsWrite(ifMatch: match, version: version) else { return }
        var writer = JSONWriter()
        try present.write(only: nil, into: &writer)
        throw Problem(
            status: 412, code: "preconditionFailed", detail: "the record has another version",
            headers: [.init("ETag", Preconditions.tag(present.version))]
        ).with("record", json: writer.bytes)
    }

    // MARK: - Deciding

    private func field(_ name: String, _ value: FieldValue) -> IncomingChange.Field {
        IncomingChange.Field(name: name, old: nil, new: value, rule: .lastWriter, stamp: .zero)
    }

    /// The server's order decides: the stamp is above all that the account ever saw.
    private mutating func decide(_ operation: Operation, _ key: RecordKey, _ fields: [IncomingChange.Field]) throws {
        let stamp = max(account.stamp.successor, Stamp(milliseconds: UInt64(max(0, now)), counter: 0))
        var fields = fields
        for index in fields.indices { fields[index].stamp = stamp }
        let change = IncomingChange(
            id: "", device: deviceName, sequence: 0, record: key, operation: operation, stamp: stamp, fields: fields)
        let source = StoreSource(store: store, account: account, readsAliases: false, guardsKeys: false)
        defer { source.end() }
        var proceedings = Proceedings(
            ledger: Ledger(
                rules: service.rules, protectedFields: service.configuration.protectedFields, head: account.head),
            policy: service.policy(account.name))
        switch try proceedings.decideAlone(change, in: source) {
        case .applied, .merged, .duplicate: break
        case .conflict, .blocked:
            throw Problem(status: 409, code: "conflict", detail: "the record has another value")
        case .rejected(let rejection): throw problem(of: rejection)
        case .retry(let seconds):
            throw Problem(
                status: 503, code: "unavailable", detail: "it cannot be decided now",
                headers: [.init("Retry-After", "\(Int((seconds ?? 1).rounded(.up)))")])
        }
        source.end()
        try EffectWriter(store: store, nowMilliseconds: now).write(proceedings.ledger, account: account)
        account.head = proceedings.ledger.head
        account.stamp = stamp
        try store.write(account)
        notice = proceedings.ledger.notice(account.name)
    }

    private func problem(of rejection: Rejection) -> Problem {
        let status =
            switch rejection.code {
            case .notFound, .unknownEntity: 404
            case .forbidden: 403
            case .idTaken: 409
            case .tooLarge: 413
            default: 422
            }
        var problem = Problem(status: status, code: rejection.code.rawValue, detail: rejection.message)
        if let field = rejection.field { problem = problem.with("field", field) }
        if let reference = rejection.reference { problem = problem.with("reference", reference) }
        return problem
    }

    private func shown(_ key: RecordKey, status: Int) throws -> ServerReply {
        guard let record = try reader.record(key) else { throw Problem.notFound }
        var writer = JSONWriter(capacity: 256 + record.fields.utf8.count)
        try record.write(only: nil, into: &writer)
        let tag = Preconditions.tag(record.version)
        return ServerReply(
            status: status, headers: [.init("Content-Type", "application/json"), .init("ETag", tag)], body: writer.bytes
        )
    }
}
