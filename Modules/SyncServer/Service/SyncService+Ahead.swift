internal import GRDB
internal import SyncCore

/// Reading ahead: when a page with more behind it has left, the next one is read and packed while the device applies it.
///
/// Nobody but a shell that asks for it has it, so a service behind a simulator does nothing that is not asked for. See
/// ``PagesAhead`` for what must hold.
extension SyncService {
    /// Whether ``readAhead(packing:)`` has something to do; asks no disk.
    public var expectsNextPage: Bool { state.with { $0?.store.ahead.isWanted ?? false } }

    /// Reads the next page of a device that was just told that there is more, and keeps it for a few seconds; given out only
    /// if the device asks exactly for that and nothing in its account was committed meanwhile.
    ///
    /// For a shell that has a thread to spare: other calls wait for the reading as for a request of its size, and not for the
    /// packing. Without it nothing is other than before. At most 64 MiB are held in all. May be called on any thread.
    ///
    /// - Parameter pack: What the shell makes of the end of a body (``ServerReply/Tail``) to send it; `nil` where it sends it
    ///   as it is.
    /// - Returns: Whether a page was read; a caller goes on while it is, and nobody waits.
    @discardableResult
    public func readAhead(packing pack: (([UInt8]) -> [UInt8]?)? = nil) -> Bool {
        let read: (wish: PagesAhead.Wish, tail: [UInt8])?
        do {
            read = try inStore { state, _ in try self.readNext(state.store) }
        } catch {
            // kept: nobody is told: who asks for the page meets the same.
            return false
        }
        guard let read else { return false }
        guard let packed = pack?(read.tail) else { return true }
        state.with { $0?.store.ahead.put(packed: packed, for: read.wish) }
        return true
    }

    private func readNext(_ store: ServerStore) throws -> (wish: PagesAhead.Wish, tail: [UInt8])? {
        guard let wish = store.ahead.nextWish() else { return nil }
        guard let account = store.known(wish.account), account.row == wish.row else {
            store.ahead.drop(wish)
            return nil
        }
        do {
            let page = try read(wish.question, account, store, known: [])
            store.ahead.put(page, at: store.moment(of: account), for: wish)
            return (wish, page.tail)
        } catch {
            store.ahead.drop(wish)
            throw error
        }
    }

    /// A page as it is in the store now.
    func read(
        _ question: PagesAhead.Question, _ account: AccountContext, _ store: ServerStore, known: Set<Int64>
    ) throws -> Page {
        let reader = PageReader(store: store, account: account, limits: configuration.limits, known: known)
        guard let scopes = question.scopes else {
            return try reader.page(after: question.checkpoint, limit: question.limit)
        }
        return try reader.page(of: scopes, rules: rules, limit: question.limit)
    }

    /// What a request asks of the store, its changes aside.
    func question(_ request: SyncRequest) -> PagesAhead.Question {
        PagesAhead.Question(
            checkpoint: request.scopes == nil ? request.lastSyncVersion ?? 0 : 0, scopes: request.scopes,
            limit: min(request.limit ?? configuration.limits.usualPage, configuration.limits.greatestPage))
    }

    /// The page that was read ahead for this request; none for one that brings changes.
    func pageAhead(_ request: SyncRequest, _ account: AccountContext, _ store: ServerStore, _ now: Int64) -> Page? {
        guard request.dirty.isEmpty else { return nil }
        return store.ahead.page(
            for: question(request), of: reader(request, account), at: store.moment(of: account), now: now)
    }

    /// The answer to a request is made: what was read ahead for it is of no more use, and if more is to come, that is next.
    func answered(
        _ request: SyncRequest, _ page: Page, _ account: AccountContext, _ store: ServerStore, _ now: Int64
    ) {
        let reader = reader(request, account)
        guard page.hasMore else { return store.ahead.forget(reader) }
        store.ahead.expect(question(request).next(after: page.version), of: account.name, by: reader, now: now)
    }

    private func reader(_ request: SyncRequest, _ account: AccountContext) -> PagesAhead.Reader {
        PagesAhead.Reader(account: account.row, device: request.deviceID)
    }
}
