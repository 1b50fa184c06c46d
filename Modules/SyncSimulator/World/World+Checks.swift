import GRDB
import Storage
import SyncCore
import SyncTesting

/// What is looked at while a seed runs, after what its devices committed, and at its end.
extension World {
    /// - Parameter isLast: also where nothing was committed since the last time: only what a device did can break what was
    ///   found to hold, but the words of the server that it had not heard then have come.
    /// - Parameter hasRestored: whether the user has just sent again what history lost.
    func check(_ index: Int, isLast: Bool = false, hasRestored: Bool = false) {
        let device = devices[index]
        guard !device.isDead, device.process != nil, collectOwed(index), let facts = device.facts()
        else { return }
        if device.wasChecked, !isLast { return }
        // A change that is yet to be made is in no queue. Whoever asks for the queue next makes it.
        guard facts.marked.isEmpty else {
            if isLast { record.violate("I9", "device \(index): \(facts.marked.sorted()) are marked, and in no queue") }
            return
        }
        device.wasChecked = true
        let lost = ledgers[index].look(
            facts, accepted: accepted(by: index), taken: record.taken, refused: record.refused
        ) { key, create in
            record.answeredIn[create] == server.epoch(of: device.account)
                && server.records(of: device.account).contains { $0.key == key && $0.presence == .live }
        }
        let check = SentCheck(schema: options.schema)
        let sent = ledgers[index].takenIn(
            sent: { record.content(of: $0, from: facts.deviceID) }, wasSent: { record.sent[$0] != nil })
        let making = sent.isEmpty ? [] : Set(facts.queue.lazy.filter { $0.operation == 0 }.map(\.record))
        for each in sent {
            let losses = check.losses(each.written, each.sent) {
                !record.created.contains($0) && !making.contains($0) || ledgers[index].gaveUp($0)
            }
            for loss in losses {
                record.violate("I1", "device \(index) sends \(each.sent.id), \(each.sent.record), \(loss)")
            }
        }
        let all = server.records(of: device.account)
        let invariants = Invariants(
            schema: device.schema, device: index, facts: facts, ledger: ledgers[index], lost: lost,
            refused: record.refused, accepted: accepted(by: index), server: all,
            serverEpoch: server.epoch(of: device.account),
            // Of a row that stayed there and was deleted no change tells where it stood (seed 198 with `--drafts`).
            hasRestored: hasRestored || options.hasDrafts,
            isSaved: device.wasSaved)
        if facts.rows.hasUnnamed || !facts.rows.twins.isEmpty { record.cover(.shownBeforeNamed) }
        if !facts.left.isEmpty { record.cover(.leftWithUnsent) }
        if invariants.hasTombstoneOverUnsent { record.cover(.tombstoneUnderUnsentChild) }
        for (invariant, message) in invariants.check() {
            record.violate(invariant, "device \(index): \(message)")
        }
        checkAccount(of: facts, in: index)
        let vanished = vanishings[index].unexplained(facts, ledgers[index], device.schema, refused: record.refused) {
            isNotHeld($0, by: device, facts, all)
        }
        for key in vanished { record.violate("I11", "device \(index) does not show \(key) any more, for no reason") }
        for key in reappearances[index].unexplained(facts, ledgers[index], accepted: accepted(by: index)) {
            record.violate("I6", "device \(index) shows \(key) again, which its app deleted, for no reason")
        }
        let isBehind = options.sendsByREST && facts.epoch != server.epoch(of: device.account)
        for message in memories[index].falls(facts, isSaved: device.wasSaved, isBehind: isBehind) {
            record.violate("I5", "device \(index): \(message)")
        }
        func content(_ key: String) -> Change? { record.content(of: key, from: facts.deviceID) ?? record.sent[key] }
        let missing =
            memories[index].owes(facts)
            ? device.read {
                try memories[index].missingLines($0, facts, sent: content, made: ledgers[index].made)
            } ?? [] : []
        for message in missing { record.violate("I13", "device \(index): \(message)") }
        countUnder(facts, device)
        if options.derives {
            let derived = DerivedCounts(device.schema)
            for message in device.read({ try derived.differences($0) }) ?? [] {
                record.violate("derived", "device \(index): \(message)")
            }
            for key in device.untoldRows() {
                record.violate("notices", "device \(index): \(key) changed, and nobody was told")
            }
        }
        count(facts, device)
    }

    /// Whether a record is dead by the server's word, or is not the device's to have, or left it with a note.
    private func isNotHeld(
        _ key: RecordKey, by device: SimulatedDevice, _ facts: DeviceFacts, _ server: [ServerRecord]
    ) -> Bool {
        guard let record = server.first(where: { $0.key == key }), record.presence == .live,
            Holding(facts, server, device.schema).checkpoint(of: key) != nil
        else { return true }
        let isOrphan = (device.schema[key.entity]?.parents ?? []).contains { field in
            guard let parent = field.reference?.entity, case .string(let id)? = record.fields[field.name] else {
                return false
            }
            return facts.rows.rows[RecordKey(parent, id)] == nil
        }
        if isOrphan { return true }
        let sql = """
            SELECT count(*) FROM sync_event WHERE entity = ? AND id IN (?, ?) AND kind IN ('gone', 'died')
            """
        let arguments: StatementArguments = [key.entity, key.id, CanonicalIDs.server(key.id)]
        return device.read { try Int.fetchOne($0, sql: sql, arguments: arguments) ?? 0 } ?? 0 > 0
    }

    /// I8: what the engine says of its queue is what its tables say.
    private func count(_ facts: DeviceFacts, _ device: SimulatedDevice) {
        guard let summary = settle(device.index, { try await $0.store.summary() }) else { return }
        // While the engine was asked it may have gone on.
        guard let later = device.facts(), later.queue.map(\.key) == facts.queue.map(\.key),
            later.queue.map(\.state) == facts.queue.map(\.state)
        else { return }
        let told = [summary.pending + summary.inFlight + summary.blocked, summary.failed]
        let found = [facts.queue.count - facts.failed.count, facts.failed.count]
        if told != found {
            record.violate("I8", "device \(device.index) tells \(told) changes of \(found)")
        }
    }

    /// I8: what the engine says of a record and all that is under it is what its tables say. Each time of another one.
    private func countUnder(_ facts: DeviceFacts, _ device: SimulatedDevice) {
        guard !facts.queue.isEmpty else { return }
        let (place, steps) = (Int(facts.checkpoint) % facts.queue.count, facts.queue.count % 4)
        let seen = device.read { db in
            let check = try CountsUnder(db, device.schema)
            return try check.subject(at: place, steps: steps).map { subject in
                (
                    subject, told: try Store.counts(db, under: subject, device.schema),
                    found: check.counts(under: subject)
                )
            }
        }
        guard let (subject, told, found) = seen ?? nil, told != found else { return }
        record.violate("I8", "device \(device.index) tells \(told) of \(subject) with all under it, and has \(found)")
    }

    /// I3: of one record, what was written first came to the server first.
    private func checkOrder() {
        let places = Dictionary(uniqueKeysWithValues: record.order.enumerated().map { ($1, $0) })
        for (index, ledger) in ledgers.enumerated() {
            for (key, keys) in ledger.byRecord.sorted(by: { $0.key < $1.key }) {
                let done = keys.filter {
                    ledger.entries[$0]?.isOriginal == true && !ledger.wasAside.contains($0)
                        && ledger.fates[$0] != .lostWithTheDevice
                }
                // A restored device may have what was taken back after the backup, and sends it after what came behind it then.
                // What came under the server's id before its device was told that, is another record there (seed 870).
                let lives = Dictionary(grouping: done) { [record.doneBy[$0], ledger.entries[$0]?.here] }
                for places in lives.values.map({ $0.compactMap { places[$0] } }) where places != places.sorted() {
                    record.violate("I3", "device \(index): \(key) came in another order")
                }
            }
        }
    }

    func finalChecks() {
        checkOrder()
        for message in server.wrongValues() { record.violate("value", message) }
        for device in devices {
            check(device.index, isLast: true)
            guard let facts = device.facts() else {
                record.violate("I9", "device \(device.index) is not there at the end")
                continue
            }
            let all = server.records(of: device.account)
            let holding = Holding(facts, all, options.schema)
            for difference in Convergence.differences(
                facts.rows.rows, all.filter { holding.checkpoint(of: $0.key) != nil }, schema: options.schema)
            {
                record.violate("I7", "device \(device.index): \(difference)")
            }
            checkNames(device, facts)
            if options.hasHandlers { checkTold(device, facts, all, holding) }
            noteLeaves(device)
            if !facts.queue.isEmpty {
                record.violate(
                    "I9", "device \(device.index): \(facts.queue.count) changes are left in the queue")
            }
            if !facts.held.isEmpty {
                record.violate("I7", "device \(device.index): held at the end: \(facts.held.sorted())")
            }
        }
    }
}
