internal import SyncCore

/// What became of one request's changes.
struct Course {
    var proceedings: Proceedings
    /// What stands beside each verdict, in the order of the outcomes.
    var members: [String]
    /// Rows that the device knows already.
    var known: Set<Int64>
    /// What the streams are told; `nil` if no record has a new version.
    var notice: CommitNotice?
}

extension SyncService {
    /// After the commit and before the answer: no version leaves that `FILE.version` does not know of.
    func noteHandedOut(_ count: Int64, _ state: inout State) throws {
        guard count > 0 else { return }
        state.handedOut += count
        try state.versionFile.write(state.handedOut)
    }

    /// Decides a request's changes and stores effects, versions and outcomes, within the caller's transaction.
    ///
    /// - Parameter guardsKeys: Keys are looked up only where one turns out to be known.
    /// - Throws: ``KeyIsKnown`` where a key must be looked up first, after all: what was done here is to be taken back, and the
    ///   account read anew (what is in memory may say more than the file). ``Problem`` where the verdicts would be too
    ///   large together; then, too, all of it is to be taken back.
    func decide(
        _ request: SyncRequest, _ account: inout AccountContext, _ now: Int64, _ store: ServerStore, guardsKeys: Bool
    ) throws -> Course {
        if request.settled > 0 {
            var device = try store.makeDevice(request.deviceID, of: account)
            try store.settle(request.settled, device: &device)
            account.devices[request.deviceID] = device
        }
        let source = StoreSource(
            store: store, account: account, readsAliases: configuration.makesIDs, guardsKeys: guardsKeys)
        defer { source.end() }
        var ledger = Ledger(rules: rules, protectedFields: configuration.protectedFields, head: account.head)
        ledger.mostFollowed = request.dirty.count > 1 ? configuration.limits.followedRecords : .max
        ledger.asked = request.asked
        var proceedings = Proceedings(
            ledger: ledger,
            isStrict: request.isStrict, naming: naming,
            policy: policy(account.name))
        proceedings.mostVerdictBytes = request.dirty.count > 1 ? configuration.limits.verdictBytes : .max
        try proceedings.decide(request.dirty, in: source)
        source.end()
        let members = try write(proceedings, &account, now, store)
        return Course(
            proceedings: proceedings, members: members, known: proceedings.ledger.echoes(to: request.checkpoint),
            notice: proceedings.ledger.notice(account.name))
    }

    private var naming: Naming? {
        guard configuration.makesIDs else { return nil }
        return Naming { record in self.configuration.idOfNew?(record.id) ?? self.makeRecordID() }
    }

    /// The app's say, for one account.
    func policy(_ account: String) -> Proceedings.Policy? {
        guard let policy = configuration.policy else { return nil }
        return { change in
            policy(
                account,
                PolicyQuestion(
                    entity: change.record.entity, id: change.record.id, operation: change.operation.rawValue,
                    changeID: change.id))
        }
    }

    private func write(
        _ proceedings: Proceedings, _ account: inout AccountContext, _ now: Int64, _ store: ServerStore
    ) throws -> [String] {
        let writer = EffectWriter(store: store, nowMilliseconds: now)
        try writer.write(proceedings.ledger, account: account)
        // By REST nobody says what was heard: each write would tell all again.
        try writer.tellLeavesAgain(proceedings.ledger)
        try writer.write(proceedings.aliases, account: account)
        var members: [String] = []
        members.reserveCapacity(proceedings.outcomes.count)
        let most = proceedings.outcomes.count > 1 ? configuration.limits.verdictBytes : .max
        var bytes = 0
        var touched: [String: DeviceContext] = [:]
        // The device of the last outcome, which nearly always is that of the next.
        var last: (name: String, device: DeviceContext)?
        var rows = OutcomeRows(store: store, nowMilliseconds: now)
        for outcome in proceedings.outcomes {
            let text = try OutcomeWriter.members(of: outcome)
            bytes += text.utf8.count
            guard bytes <= most else { throw Problem.tooManyVerdictBytes(most) }
            members.append(text)
            account.stamp = max(account.stamp, outcome.stamp ?? .zero)
            guard outcome.storedSequence != nil else { continue }
            if last?.name != outcome.device {
                if let last { touched[last.name] = last.device }
                let device = try touched[outcome.device] ?? store.makeDevice(outcome.device, of: account)
                last = (outcome.device, device)
            }
            guard var device = last?.device else { continue }
            try rows.add(outcome, members: text, device: &device)
            last?.device = device
        }
        try rows.finish()
        if let last { touched[last.name] = last.device }
        for (name, device) in touched.sorted(by: { $0.key < $1.key }) {
            account.devices[name] = device
            try store.statements.run("UPDATE device SET top = ? WHERE n = ?", [device.top, device.row])
        }
        account.head = proceedings.ledger.head
        try store.write(account)
        return members
    }

    /// A UUID of version 7, for a create without an id.
    func makeUUID() -> String { UUIDv7Source(clock: clock, randomness: randomness).makeID() }

    /// An id of the server's own: 24 hex digits, the first eight its time in seconds.
    func makeRecordID() -> String {
        let seconds = UInt64(max(0, clock.nowMilliseconds / 1_000)) & 0xffff_ffff
        let time = Checksum.text(seconds).suffix(8)
        return time + Checksum.text(randomness.next())
    }
}

extension SyncRequest {
    /// Who begins with a scope has nothing of it that could leave.
    fileprivate var asked: Ledger.Asked? {
        guard let scopes, let checkpoint = scopes.lazy.map(\.checkpoint).filter({ $0 > 0 }).min() else { return nil }
        return Ledger.Asked(scopes: Set(scopes.map(\.name)), checkpoint: checkpoint)
    }
}

extension Ledger.Entry {
    fileprivate func isKnown(at checkpoint: Int64) -> Bool {
        isTouched && isEcho && version != versionBefore && versionBefore <= checkpoint
    }
}

extension Ledger {
    /// Rows of which the device knows the state that they have now.
    ///
    /// What a verdict gave it is a version, not what others had written below that: the page that tells of those may have
    /// been lost with the process. So the checkpoint must be past the version that was there (Decision 151).
    func echoes(to checkpoint: Int64) -> Set<Int64> {
        var rows: Set<Int64> = []
        rows.reserveCapacity(entries.count)
        // By their places: a loop over the entries would copy each of them.
        for place in entries.indices where entries[place].isKnown(at: checkpoint) { rows.insert(entries[place].row) }
        return rows
    }

    func notice(_ account: String) -> CommitNotice? {
        guard !touchedRoots.isEmpty else { return nil }
        // A root is always here, since what changes brings what is above it.
        let roots = entries.indices.filter { touchedRoots.contains(entries[$0].row) }
        let scopes = roots.map { "\(entries[$0].key.entity):\(entries[$0].key.id)" }.sorted()
        return CommitNotice(account: account, version: head, scopes: scopes)
    }
}
