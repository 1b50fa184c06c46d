internal import GRDB
internal import SyncCore

extension SyncService {
    /// Answers `POST /api/sync`.
    ///
    /// - Parameters:
    ///   - account: Whose data set; the shell knows it from the token. Any text; one that never came gets a data set.
    ///   - body: The plain (already inflated) JSON.
    /// - Returns: 200, or an `application/problem+json`; 503 where the store failed.
    public func sync(account: String, body: [UInt8]) -> ServerReply {
        let now = clock.nowMilliseconds
        do {
            let reader = SyncRequestReader(limits: configuration.limits, nowMilliseconds: now)
            let request = try reader.read(body)
            if let reply = try quickAnswer(request, account, now) { return reply }
            let (reply, notice) = try inStore { state, db in
                try self.answer(request, account, now, &state, db)
            }
            if let notice { listeners.with { $0.tell(notice) } }
            return reply
        } catch let problem as Problem {
            return problem.reply
        } catch {
            return Self.unavailable.reply
        }
    }

    /// Answers `POST /api/sync` at once if that needs neither the file nor a wait for a request in work; else `nil`,
    /// and ``sync(account:body:)`` has the answer.
    ///
    /// For a shell with event loops: most syncs bring nothing and find nothing new.
    public func syncFromMemory(account: String, body: [UInt8]) -> ServerReply? {
        guard body.count <= 4_096 else { return nil }
        let now = clock.nowMilliseconds
        do {
            let reader = SyncRequestReader(limits: configuration.limits, nowMilliseconds: now)
            return try quickAnswer(reader.read(body), account, now)
        } catch {
            // What is wrong with it, the other call says.
            return nil
        }
    }

    /// The answer to who has everything and brings nothing, from memory alone; `nil` where the file must be asked.
    private func quickAnswer(_ request: SyncRequest, _ name: String, _ now: Int64) throws -> ServerReply? {
        guard request.dirty.isEmpty, request.scopes == nil, !request.wantsChecksum else { return nil }
        return try state.ifFree { state in
            guard let state, let account = state.store.known(name), request.lastSyncVersion == account.head else {
                return nil
            }
            let settled = request.settled == 0 ? 0 : account.devices[request.deviceID]?.settled ?? -1
            guard request.settled <= settled, (request.dataset ?? account.dataset) == account.dataset,
                (request.epoch ?? state.epoch) == state.epoch
            else { return nil }
            return try SyncAnswer(
                request: request, account: account, epoch: state.epoch, now: now, outcomes: [], members: [],
                page: Page(version: account.head), checksum: nil
            ).reply()
        }
    }

    /// What is answered when the store failed: nothing of the request has happened, and it may be sent again.
    static let unavailable = Problem(
        status: 503, code: "unavailable", detail: "the server cannot store anything now",
        headers: [.init("Retry-After", "1")])

    private func answer(
        _ request: SyncRequest, _ name: String, _ now: Int64, _ state: inout State, _ db: Database
    ) throws -> (ServerReply, CommitNotice?) {
        var account = try self.account(name, &state, db)
        do {
            try check(request, account, epoch: state.epoch)
        } catch {
            return (error.reply, nil)
        }
        var course: Course?
        let settles = try request.settled > (state.store.device(request.deviceID, of: account)?.settled ?? 0)
        if settles || !request.dirty.isEmpty {
            course = try commit(request, &account, now, &state, db)
        }
        state.store.keep(account)
        let page = try self.page(request, account, course, state)
        let sum = try request.wantsChecksum && !page.hasMore ? checksum(request, account, state) : nil
        let answer = SyncAnswer(
            request: request, account: account, epoch: state.epoch, now: now,
            outcomes: course?.proceedings.outcomes ?? [], members: course?.members ?? [], page: page, checksum: sum)
        return (try answer.reply(), course?.notice)
    }

    /// The account as it is kept; a new one is committed at once, so that its data set has its name for good.
    func account(_ name: String, _ state: inout State, _ db: Database) throws -> AccountContext {
        if let known = state.store.known(name) { return known }
        let store = state.store
        var account: AccountContext?
        do {
            try db.inTransaction(.immediate) {
                account = try store.account(name) { self.makeName("d-") }
                return .commit
            }
        } catch {
            store.forget(name)
            throw error
        }
        guard let account else { throw ServiceFailure.closed }
        return account
    }

    /// PROTOCOL.md, *Another history*: before anything is decided.
    private func check(_ request: SyncRequest, _ account: AccountContext, epoch: String) throws(Problem) {
        if let dataset = request.dataset, dataset != account.dataset {
            throw Problem(status: 409, code: "otherDataset", detail: "this is another data set")
        }
        let checkpoints = request.scopes?.map(\.checkpoint) ?? [request.lastSyncVersion ?? 0]
        let isAhead = checkpoints.contains { $0 > account.head }
        if isAhead || (request.epoch ?? epoch) != epoch {
            throw Problem(status: 410, code: "epochChanged", detail: "history was replaced").with("epoch", epoch)
        }
        if !request.isFullPass, checkpoints.contains(where: { $0 != 0 && $0 < account.oldest }) {
            throw Problem(status: 410, code: "checkpointExpired", detail: "tombstones after it are gone")
                .with("epoch", epoch).with("oldestVersion", account.oldest)
        }
    }

    private func page(
        _ request: SyncRequest, _ account: AccountContext, _ course: Course?, _ state: State
    ) throws -> Page {
        let limits = configuration.limits
        let limit = min(request.limit ?? limits.usualPage, limits.greatestPage)
        let reader = PageReader(store: state.store, account: account, limits: limits, known: course?.known ?? [])
        guard let scopes = request.scopes else {
            return try reader.page(after: request.lastSyncVersion ?? 0, limit: limit)
        }
        return try reader.page(of: scopes, rules: rules, limit: limit)
    }

    private func checksum(_ request: SyncRequest, _ account: AccountContext, _ state: State) throws -> UInt64 {
        let reader = PageReader(store: state.store, account: account, limits: configuration.limits, known: [])
        return try reader.checksum(of: request.scopes, rules: rules)
    }
}
