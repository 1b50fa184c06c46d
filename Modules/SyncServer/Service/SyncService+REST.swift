internal import GRDB
internal import SyncCore

extension SyncService {
    /// Answers a request of PROTOCOL.md, section 2: `/1/{collection}` and what is under it.
    ///
    /// - Parameters:
    ///   - account: Whose data set; the shell knows it from the token.
    ///   - request: As it came, its body inflated.
    /// - Returns: The answer; 404 for a path that is none, 405 for a method that the path has not, 503 where the store
    ///   failed. `HEAD` is answered as `GET` is: the shell sends the length of the body, and not the body.
    public func rest(account: String, request: RESTRequest) -> ServerReply {
        do {
            guard let path = RESTPath(request.path, entities: configuration.entities) else { throw Problem.notFound }
            switch (request.method, path) {
            case ("GET", _), ("HEAD", _):
                return try inStore { state, db in
                    let account = try self.account(account, &state, db)
                    do {
                        return try RESTReading(service: self, state: state, account: account).answer(path, request)
                    } catch let problem as Problem {
                        return problem.reply
                    }
                }
            case ("POST", .collection), ("POST", .children), ("PUT", .record), ("PUT", .child), ("DELETE", .record),
                ("DELETE", .child):
                return try write(account, path, request)
            case (_, .collection), (_, .children): throw Self.notAllowed("GET, HEAD, POST")
            case (_, .record), (_, .child): throw Self.notAllowed("GET, HEAD, PUT, DELETE")
            }
        } catch let problem as Problem {
            return problem.reply
        } catch {
            return Self.unavailable(error)
        }
    }

    private static func notAllowed(_ methods: String) -> Problem {
        Problem(
            status: 405, code: "methodNotAllowed", detail: "the path has \(methods)", headers: [.init("Allow", methods)]
        )
    }

    private func write(_ name: String, _ path: RESTPath, _ request: RESTRequest) throws -> ServerReply {
        let key = try request.idempotencyKey()
        let device = try request.device()
        let now = clock.nowMilliseconds
        let (reply, notice) = try inStore { state, db in
            let before = try self.account(name, &state, db)
            let store = state.store
            var writing = RESTWriting(service: self, store: store, account: before, device: device, now: now)
            var reply: ServerReply?
            var pruning = state.pruning
            do {
                try db.inTransaction(.immediate) {
                    reply = try writing.answer(path, request, key: key)
                    if try self.pruneIfDue(store, &pruning, now) { writing.raiseOldest(pruning.oldest) }
                    return .commit
                }
            } catch {
                store.forget(name)
                throw error
            }
            guard let reply else { throw ServiceFailure.closed }
            state.keep(pruning)
            store.keep(writing.account)
            try self.noteHandedOut(writing.account.head - before.head, &state)
            return (reply, writing.notice)
        }
        if let notice { listeners.with { $0.tell(notice) } }
        return reply
    }
}

extension RESTRequest {
    /// The key of a write; `nil` where none was sent.
    func idempotencyKey() throws(Problem) -> String? {
        guard let header = self[header: "Idempotency-Key"] else { return nil }
        guard let key = Preconditions.key(header) else { throw .malformed("the Idempotency-Key is none") }
        return key
    }

    /// The device; the empty one where none was told.
    func device() throws(Problem) -> String {
        guard let header = self[header: "Sync-Device"], !header.isEmpty else { return "" }
        guard RecordID.isID(header) else { throw .malformed("the Sync-Device is no id") }
        return header
    }
}
