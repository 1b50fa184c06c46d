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
        sync([SyncCall(account: account, body: body)])[0]
    }

    /// Answers several at once, in their order, as if one after another: what they change is committed together, so
    /// that requests which waited for each other wait for the disk once. No answer is given before the commit.
    ///
    /// A request that fails takes nothing of the others with it, unless the disk does.
    public func sync(_ calls: [SyncCall]) -> [ServerReply] { sync(calls, most: .max) }

    /// Answers as many of the first as fit in one turn, at least one, in the way of ``sync(_:)-([SyncCall])``: the others are
    /// to be asked again.
    ///
    /// For a shell with many accounts: of requests that are short to send and long to do, few have a turn together
    /// (``ServerLimits/turnRecords``), so that whoever comes meanwhile does not wait for all of them.
    /// - Returns: The answers to the first calls, in their order; none for none.
    public func syncFirst(of calls: [SyncCall]) -> [ServerReply] {
        sync(calls, most: configuration.limits.turnRecords)
    }

    /// - Parameter most: Records that are looked at, after which no other call is begun.
    private func sync(_ calls: [SyncCall], most: Int) -> [ServerReply] {
        let now = clock.nowMilliseconds
        let reader = requestReader(now)
        var replies = [ServerReply](repeating: Self.unavailable(nil), count: calls.count)
        var open: [Asked] = []
        for (index, call) in calls.enumerated() {
            do {
                let request = try reader.read(call.body)
                if let reply = try quickAnswer(request, call.account, now) {
                    replies[index] = reply
                } else {
                    open.append(Asked(index: index, account: call.account, request: request))
                }
            } catch let problem as Problem {
                replies[index] = problem.reply
            } catch {
                replies[index] = Self.unavailable(error)
            }
        }
        guard !open.isEmpty else { return replies }
        do {
            let answers = try inStore { state, db in try self.answer(open, most: most, now, &state, db) }
            for (asked, answer) in zip(open, answers) {
                replies[asked.index] = answer.reply
                if let notice = answer.notice { listeners.with { $0.tell(notice) } }
            }
            // A request of many changes is some ten thousand pieces of memory. They are given back when its answer is under way.
            spent.with { $0 = Spent(asked: open, courses: answers.map(\.course)) }
            if answers.count < open.count { replies.removeLast(replies.count - open[answers.count].index) }
        } catch {
            // Nothing of any of them has happened.
            let reply = Self.unavailable(error)
            for asked in open { replies[asked.index] = reply }
        }
        return replies
    }

    /// Gives back the memory that the last requests were decided in.
    ///
    /// Never needed: the next request does the same. A shell that calls it when it has handed the answers out keeps that off
    /// the way of an answer.
    public func tidy() { spent.with { $0 = nil } }

    /// What was made of requests that are answered.
    struct Spent {
        fileprivate var asked: [Asked]
        fileprivate var courses: [Course?]
    }

    /// A request that needs the store.
    fileprivate struct Asked {
        var index: Int
        var account: String
        var request: SyncRequest
    }

    private struct Answered {
        var reply: ServerReply
        var notice: CommitNotice?
        var course: Course?
        /// How many versions it handed out.
        var versions: Int64 = 0
        /// How many records were looked at for it.
        var looks = 0
    }

    /// Answers `POST /api/sync` at once if that needs neither the file nor a wait for a request in work; else `nil`,
    /// and ``sync(account:body:)`` has the answer.
    ///
    /// For a shell with event loops: most syncs bring nothing and find nothing new. A page is given, too, that was read ahead
    /// and packed (``readAhead(packing:)``); what it says is in memory.
    public func syncFromMemory(account: String, body: [UInt8]) -> ServerReply? {
        guard body.count <= 4_096 else { return nil }
        let now = clock.nowMilliseconds
        do {
            let reader = requestReader(now)
            return try quickAnswer(reader.read(body), account, now)
        } catch {
            // kept: what is wrong with it, the other call says.
            return nil
        }
    }

    /// The answer to who brings nothing, and has everything or asks for what was read and packed ahead, from memory alone;
    /// `nil` where the file must be asked.
    private func requestReader(_ now: Int64) -> SyncRequestReader {
        SyncRequestReader(
            limits: configuration.limits, nowMilliseconds: now, naming: configuration.makesIDs ? rules : nil)
    }

    private func quickAnswer(_ request: SyncRequest, _ name: String, _ now: Int64) throws -> ServerReply? {
        guard request.dirty.isEmpty, !request.wantsChecksum else { return nil }
        return try state.ifFree { state in
            guard let state, let account = state.store.known(name) else { return nil }
            let page: Page
            if request.scopes == nil, request.lastSyncVersion == account.head {
                page = Page(version: account.head)
            } else if let ready = pageAhead(request, account, state.store, now), ready.packed != nil {
                page = ready
            } else {
                return nil
            }
            let settled = request.settled == 0 ? 0 : account.devices[request.deviceID]?.settled ?? -1
            guard request.settled <= settled else { return nil }
            do { try check(request, account, epoch: state.epoch) } catch { return nil }  // kept: the long way tells
            answered(request, page, account, state.store, now)
            return try SyncAnswer(
                request: request, account: account, epoch: state.epoch, now: now, outcomes: [], members: [],
                page: page, checksum: nil
            ).reply()
        }
    }

    /// What is answered when the store failed: nothing of the request has happened, and it may be sent again.
    static func unavailable(_ error: (any Error)?) -> ServerReply {
        var reply = Problem(
            status: 503, code: "unavailable", detail: "the server cannot store anything now",
            headers: [.init("Retry-After", "1")]
        ).reply
        reply.cause = error.map(ServiceFailure.words)
        return reply
    }

    private func answer(
        _ open: [Asked], most: Int, _ now: Int64, _ state: inout State, _ db: Database
    ) throws -> [Answered] {
        let store = state.store
        var answers: [Answered] = []
        guard try open.contains(where: { try isWrite($0, store) }) else {
            for asked in open where Self.isTurn(after: answers, most) {
                answers.append(try answer(asked, now, &state, db, guardsKeys: false))
            }
            return answers
        }
        do {
            do {
                answers = try written(open, most: most, now, &state, db, guardsKeys: true)
            } catch is KeyIsKnown {
                // Of several requests each begins again by itself; this one was alone, and all of it is taken back.
                for asked in open { store.forget(asked.account) }
                answers = try written(open, most: most, now, &state, db, guardsKeys: false)
            }
        } catch let problem as Problem where open.count == 1 {
            store.forgetAll()
            return [Answered(reply: problem.reply)]
        } catch {
            store.forgetAll()
            throw error
        }
        try noteHandedOut(answers.reduce(0) { $0 + $1.versions }, &state)
        return answers
    }

    /// Whether another request has its turn with those that were answered; the first always has, whatever the limit: a shell
    /// that got no answer would ask for ever.
    private static func isTurn(after answers: [Answered], _ most: Int) -> Bool {
        answers.isEmpty || answers.reduce(0) { $0 + $1.looks } < most
    }

    /// One transaction for all of them.
    private func written(
        _ open: [Asked], most: Int, _ now: Int64, _ state: inout State, _ db: Database, guardsKeys: Bool
    ) throws -> [Answered] {
        var answers: [Answered] = []
        var pruning = state.pruning
        try db.inTransaction(.immediate) {
            for asked in open where Self.isTurn(after: answers, most) {
                answers.append(
                    try open.count == 1
                        ? answer(asked, now, &state, db, guardsKeys: guardsKeys) : apart(asked, now, &state, db))
            }
            _ = try self.pruneIfDue(state.store, &pruning, now)
            return .commit
        }
        state.keep(pruning)
        return answers
    }

    /// One of several: what it does is taken back if it fails, or must begin again.
    private func apart(
        _ asked: Asked, _ now: Int64, _ state: inout State, _ db: Database, guardsKeys: Bool = true
    ) throws -> Answered {
        var answered: Answered?
        do {
            try db.inSavepoint {
                answered = try self.answer(asked, now, &state, db, guardsKeys: guardsKeys)
                return .commit
            }
        } catch is KeyIsKnown {
            state.store.forget(asked.account)
            return try apart(asked, now, &state, db, guardsKeys: false)
        } catch {
            // Of some failures SQLite ends the whole transaction.
            guard db.isInsideTransaction else { throw error }
            state.store.forget(asked.account)
            answered = Answered(reply: (error as? Problem)?.reply ?? Self.unavailable(error))
        }
        return answered ?? Answered(reply: Self.unavailable(nil))
    }

    /// Whether it surely changes nothing.
    private func isWrite(_ asked: Asked, _ store: ServerStore) throws -> Bool {
        guard asked.request.dirty.isEmpty, let account = store.known(asked.account) else { return true }
        guard asked.request.settled > 0 else { return false }
        return try asked.request.settled > (store.device(asked.request.deviceID, of: account)?.settled ?? 0)
    }

    private func answer(
        _ asked: Asked, _ now: Int64, _ state: inout State, _ db: Database, guardsKeys: Bool
    ) throws -> Answered {
        let request = asked.request
        var account = try self.account(asked.account, &state, db)
        do {
            try check(request, account, epoch: state.epoch)
        } catch {
            return Answered(reply: error.reply)
        }
        let before = account.head
        var course: Course?
        let settles =
            try request.settled > 0
            && request.settled > (state.store.device(request.deviceID, of: account)?.settled ?? 0)
        if settles || !request.dirty.isEmpty {
            course = try decide(request, &account, now, state.store, guardsKeys: guardsKeys)
        }
        state.store.keep(account)
        let page = try self.page(request, account, course, state, now)
        answered(request, page, account, state.store, now)
        let sum = try request.wantsChecksum && !page.hasMore ? checksum(request, account, state) : nil
        let answer = SyncAnswer(
            request: request, account: account, epoch: state.epoch, now: now,
            outcomes: course?.proceedings.outcomes ?? [], members: course?.members ?? [], page: page, checksum: sum)
        return Answered(
            reply: try answer.reply(), notice: course?.notice, course: course, versions: account.head - before,
            looks: page.count + (course?.proceedings.ledger.looks ?? 0))
    }

    /// The account as it is kept; a new one is committed before anything is answered, so that its data set has its name
    /// for good.
    func account(_ name: String, _ state: inout State, _ db: Database) throws -> AccountContext {
        if let known = state.store.known(name) { return known }
        let store = state.store
        if db.isInsideTransaction { return try store.account(name) { self.makeName("i-") } }
        var account: AccountContext?
        do {
            try db.inTransaction(.immediate) {
                account = try store.account(name) { self.makeName("i-") }
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
        _ request: SyncRequest, _ account: AccountContext, _ course: Course?, _ state: State, _ now: Int64
    ) throws -> Page {
        if let ready = pageAhead(request, account, state.store, now) { return ready }
        // A base version of another history may name other contents here: a full pass brings all there is (Decision 140).
        let known = request.isFullPass ? [] : course?.known ?? []
        // Every version above the checkpoint is of a record that the device knows from this very request.
        if request.scopes == nil, course != nil, (request.lastSyncVersion ?? 0) + Int64(known.count) == account.head {
            return Page(version: account.head)
        }
        return try read(question(request), account, state.store, known: known)
    }

    private func checksum(_ request: SyncRequest, _ account: AccountContext, _ state: State) throws -> UInt64 {
        let reader = PageReader(store: state.store, account: account, limits: configuration.limits, known: [])
        return try reader.checksum(of: request.scopes, rules: rules)
    }
}
