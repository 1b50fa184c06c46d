import GRDB
import SyncCore

/// One settlement at work: each outcome is recorded, then what it did to records is written once for each record.
///
/// 1. ``record(_:_:)`` takes changes away, sets them aside, or puts successors in their places.
/// 2. ``finish(_:)`` writes bases and versions, blocks what needs a create that was set aside, and brings the rows to
///    base plus what remains.
struct Settling {
    let table: ChangeTable
    let now: Int64
    /// Records that more than a version happened to.
    var works: [RecordKey: RecordWork] = [:]
    /// The same in the order in which they came.
    private(set) var order: [RecordKey] = []
    /// The records whose rows changed, in the order written.
    private(set) var touched: [RecordKey] = []
    /// Rows of `sync_change` made (or, below 0, taken away) since the last ``finish(_:)``.
    var counted = 0
    /// The first place of a create that was set aside here.
    var firstAside: Int64?
    /// Records whose held version came from an earlier change of the same settlement.
    var raised: Set<RecordKey> = []
    /// Records that the server said it has, whether the held version rose by it or not.
    private var brought: Set<RecordKey> = []
    /// Records that a repeated verdict made, with its version, and that no page told of (``StayedRows/noteUntold(_:_:_:)``).
    private var untold: [RecordKey: Int64] = [:]
    /// Records whose delete the server did just now.
    private var deleted: [(record: RecordKey, version: Int64)] = []
    /// Whether anything is set aside or waits for what is, settled changes of this settlement included.
    var hasAside = false
    /// Where the changes without a verdict stand.
    var places: [String: Int64] = [:]
    /// The full pass that runs.
    private(set) var pass: PassState?
    /// Whether another history came once.
    private(set) var isInOtherHistory = false
    /// Whether any record waits in `sync_held`.
    private(set) var hasHeld = false
    /// Whether the outcome at work is a repeated one.
    private(set) var isRepeated = false
    /// Records of which the server says only now, again, under which id it has them, and nothing is here under that id.
    var namedUnseen: Set<RecordKey> = []
    /// Those that died, as pages told under that id, with the version of it.
    var namedDead: [RecordKey: Int64] = [:]
    /// Records of which the server told now under which id it has them.
    var named: Set<RecordKey> = []
    /// Those that it may have told of before, as others: by that id.
    var namedLate: [RecordKey: RecordKey] = [:]
    /// Those whose name was not kept, since another record has it here: that one.
    var unnamed: [RecordKey: RecordKey] = [:]
    /// What the changes in the queue refer to, beside parents; looked for once.
    var referredTo: Set<RecordKey>?

    init(table: ChangeTable, now: Int64) {
        self.table = table
        self.now = now
    }

    /// Records outcomes; those about changes that are no longer there, or were decided, are ignored.
    mutating func record(_ db: Database, _ outcomes: [Settlement.Outcome]) throws {
        guard !outcomes.isEmpty else { return }
        hasAside = try QueueFigures.hasAside(db)
        let state = try PassState.read(db)
        pass = state.isRunning ? state : nil
        isInOtherHistory = state.isInOtherHistory
        hasHeld = try !HeldRecords.isEmpty(db)
        let rest = try acknowledgeMany(db, outcomes)
        guard !rest.isEmpty else { return }
        let sql = "SELECT key, position FROM sync_change WHERE state <> 0 AND state IN (1, 2, 5)"
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
        while let row = try rows.next() { places[row[0]] = row[1] }
        // In the queue's order, whatever the answer's: what a verdict says of a record includes what came before it.
        let others = inOrder(rest)
        for outcome in others {
            if let position = places[outcome.changeID] {
                // What was only counted may be set aside by the next outcome.
                if case .unanswered = outcome.kind {
                    try record(db, outcome, at: position)
                } else if try outcome.kind.tellsOfRecord && isEarly(db, position) {
                    try postpone(db, position)
                } else {
                    places[outcome.changeID] = nil
                    try record(db, outcome, at: position)
                }
            } else if let late = try Failures.find(db, key: outcome.changeID), late.doubt.isUncertain {
                try recordLate(db, outcome, at: late.position)
            }
        }
    }

    private func inOrder(_ outcomes: [Settlement.Outcome]) -> [Settlement.Outcome] {
        guard outcomes.count > 1 else { return outcomes }
        let ordered = outcomes.enumerated().map { (places[$1.changeID] ?? .max, $0, $1) }
        return ordered.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map { $0.2 }
    }

    /// Whether an earlier change of the record is on its way and has no verdict. Its own may have been missing from the
    /// answer: what it came to is part of what this verdict says of the record, and would come too late. A refusal says
    /// nothing of the record, so it waits for nobody: a member of a unit is refused although an earlier change of its
    /// record is blocked in the same answer.
    private func isEarly(_ db: Database, _ position: Int64) throws -> Bool {
        let sql = """
            SELECT 1 FROM sync_change c CROSS JOIN sync_change e
            ON e.entity = c.entity AND e.id = c.id AND e.position < c.position
            WHERE c.position = ? AND e.state IN (1, 2) LIMIT 1
            """
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [position]) != nil
    }

    /// The verdict counts as missing: change and verdict come again, with those of the earlier one.
    private func postpone(_ db: Database, _ position: Int64) throws {
        let sql = "UPDATE sync_change SET state = 2 WHERE position = ? AND state = 1"
        try db.cachedStatement(sql: sql).execute(arguments: [position])
    }

    private mutating func record(
        _ db: Database, _ outcome: Settlement.Outcome, at position: Int64
    ) throws {
        switch outcome.kind {
        case .unanswered(let attempts):
            let sql =
                "UPDATE sync_change SET state = CASE state WHEN 1 THEN 2 ELSE state END, attempts = ? WHERE position = ?"
            try db.cachedStatement(sql: sql).execute(arguments: [attempts, position])
            return
        case .applied, .merged, .conflict, .setAside: break
        }
        guard let change = try ChangeRows.read(db, position: position, table.schema) else { return }
        isRepeated = outcome.isRepeated
        // What an older history had under the id that the server gives now may be named here by that (seed 30885).
        var isLate = outcome.isRepeated || outcome.isSetAside || change.operation != .create || isInOtherHistory
        if !isLate, outcome.givenID != nil { isLate = try isKnown(db, outcome.kind) }
        if outcome.isClamped { try ChangeNotes.event(db, "clamped", of: change, now: now) }
        if let serverID = outcome.givenID, let other = try keep(db, serverID, of: change.record, isLate: isLate) {
            // Done it may be, but under a name that would mix two records up: so it counts as without a verdict.
            if try other.id == serverID && IdentityMap.serverID(db, of: change.record) == nil {
                unnamed[change.record] = other
            }
            return try setAside(db, change, .serverIDTaken(serverID, by: other), doubt: .shown)
        }
        switch outcome.kind {
        case .applied(let version, let overwrote, _):
            try applied(db, change, version: version, overwrote: overwrote)
        case .merged(let record): try merged(db, change, record)
        case .conflict(let record, let successor): try conflict(db, change, record, successor: successor)
        case .setAside(let reason, let staysUncertain):
            try setAside(db, change, reason, doubt: staysUncertain ? .shown : .none)
        case .unanswered: break
        }
    }

    /// A verdict about a change that was set aside without one: decided after all.
    private mutating func recordLate(_ db: Database, _ outcome: Settlement.Outcome, at position: Int64) throws {
        if case .unanswered = outcome.kind { return }
        guard let change = try ChangeRows.read(db, position: position, table.schema), change.key == outcome.changeID
        else { return }
        try Failures.delete(db, key: change.key)
        try ChangeRows.setState(db, position: position, .uncertain)
        hasAside = true
        try record(db, outcome, at: position)
    }

    // MARK: Done

    mutating func applied(
        _ db: Database, _ change: StoredChange, version: Int64?, overwrote: [String: FieldValue]
    ) throws {
        for (name, theirs) in overwrote.inByteOrder {
            let delta = change.fields[name]
            try ChangeNotes.conflict(
                db,
                .init(
                    field: name, mine: delta?.new ?? .null, theirs: theirs, winner: "mine",
                    rule: delta?.rule ?? .lastWriter, kind: "overwrote"), of: change, now: now)
        }
        if var work = try takeWork(db, change.record) {
            work.noteDeath(change, at: version, isNow: !isRepeated)
            // The server's last word of it may wait for its parent: the change was done over that.
            let held = try hasHeld ? HeldRecords.find(db, change.record) : nil
            if let held, held.presence != .gone { work.takeLast(held) }
            let isPages = try isLeftToPass(db, change)
            if isUntold(change, work) { untold[change.record] = version }
            if isPages { work.awaitPage() }
            let isFollowing =
                work.version == change.baseVersion ?? 0 || raised.contains(change.record) || isMadeAnew(change, work)
            let isNext = isFollowing && !isPages && !isLeftOver(work, change)
            // A version that stands for an earlier change, too, is not held before that one has its verdict.
            let raises = isNext && !work.hasUncertain(before: change)
            let isGone =
                try change.operation != .delete && version.map { try isForgotten(db, change, $0, work) } ?? false
            // What the app makes anew revives nothing (Decision 442).
            if work.revives(change), work.version > 0, !isGone {
                try ChangeNotes.event(db, "revived", of: change, now: now)
            }
            if let version, version > work.version, isNext {
                noteBrought(change.record)
                if raises { noteRaised(change.record) }
            }
            // A repeated verdict says what was so when the delete was decided: the record may have come back since, and what
            // waits for it may be of that later time. No page left its tombstone out for a delete of an earlier request. One
            // without a version found it dead: what was under it died before, of which the page tells.
            if change.operation == .delete, !isRepeated, let version { deleted.append((change.record, version)) }
            let isFromBefore = try pass.map { try $0.isNew(db, change.record) } ?? false
            if isRepeated, change.operation == .delete, version == nil, !isPages, !isFromBefore,
                work.version > change.baseVersion ?? 0 || work.base.isLive && work.version > 0
            {
                // Nothing was there when it was decided, whenever that was: a copy of the file may have sent it before (seeds 46938
                // and 125555). What is held here has come to life since, or its tombstone comes with the page. What a full pass did not
                // bring has neither to come (seed 1013382); if it lives, the pass brings it, whatever is held.
                work.remove(change.key)
            } else if let version, isGone {
                try ChangeNotes.event(db, "died", of: change, now: now)
                work.die(with: change, at: max(version, namedDead[change.record] ?? 0))
            } else if let version, try isRevivedSomewhere(db, change, version, work) {
                work.leave(with: change)
            } else {
                work.accept(change, version: version, raises: raises, isNow: !isRepeated)
                if isNext, !raises, !isRepeated, let version { work.note(told: version) }
            }
            if held?.presence == .gone { try endLeave(db, work, by: change, named: change.fields.mapValues(\.new)) }
            works[change.record] = work
        }
        try drop(db, change)
        try ChangeRows.release(db, blockedBy: change.key)
    }

    /// Whether a create made a record, just now, where there was only a death. Where the server still knew of that, the page brings what
    /// came of both; where it had forgotten it, no page does, and the held version would stay that of the death (seed 14074).
    private func isMadeAnew(_ change: StoredChange, _ work: RecordWork) -> Bool {
        !isRepeated && change.operation == .create && !work.base.isLive && !work.base.isAway && work.version > 0
    }

    /// Whether an edit brought a record back that was dead by the server's word, or came over one that a newer history did not have, on a device
    /// that holds chosen roots: it may have been moved out of them before it died, or made elsewhere since, and only its page, which comes
    /// then, tells where it is (seeds 1785 and 162544).
    private func isRevivedSomewhere(
        _ db: Database, _ change: StoredChange, _ version: Int64, _ work: RecordWork
    ) throws -> Bool {
        guard pass == nil, work.revives(change), !work.base.isAway, version > work.version,
            let scopes = try Scopes.read(db)
        else { return false }
        // What a full pass did not bring is not dead by anybody's word, and is looked for (``StayedRows``).
        let name = change.record.scopeName
        return !scopes.stayed.contains(name) && !scopes.doubted.contains(name)
    }

    private mutating func merged(_ db: Database, _ change: StoredChange, _ record: ServerRecord) throws {
        try noteLosers(db, change, record)
        if var work = try takeWork(db, change.record) {
            if change.operation == .delete, record.presence != .live {
                work.noteDeath(change, at: record.version, isNow: false)
            }
            if work.base.isAway, try isToKeep(db, record) { work.comeBack() }
            if record.presence == .live, isUntold(change, work) { untold[change.record] = record.version }
            if try isLeftToPass(db, change) {
                work.takeNamed(by: change, from: record)
                work.awaitPage()
                work.remove(change.key)
            } else if try record.presence == .live && isForgotten(db, change, record.version, work) {
                try ChangeNotes.event(db, "died", of: change, now: now)
                work.die(with: change, at: max(record.version, namedDead[change.record] ?? 0))
            } else if try work.merge(change, into: whole(record, db, work, doing: change)) {
                noteRaised(change.record)
            }
            if hasHeld, let held = try HeldRecords.find(db, change.record) {
                if held.presence == .gone, record.presence == .live {
                    try endLeave(db, work, by: change, named: record.fields)
                }
                // What came before under the server's id may wait for its parent still, and died since (seed 74454).
                if held.presence == .live, held.version > 0, record.presence != .live, held.version < record.version {
                    try HeldRecords.forget(db, change.record)
                }
            }
            works[change.record] = work
        }
        try drop(db, change)
        try ChangeRows.release(db, blockedBy: change.key)
    }

    /// Whether nothing of the record is known in this history but what stayed of another one, and the change does not say all of it:
    /// its version is not held before its page has come, as in a pass (seed 59411).
    private func isLeftOver(_ work: RecordWork, _ change: StoredChange) -> Bool {
        isOfBefore(work) && change.operation == .update
    }

    /// Whether nothing of the record is known in this history but what stayed of another one.
    private func isOfBefore(_ work: RecordWork) -> Bool { isInOtherHistory && work.stored?.version == 0 }

    /// The record of a verdict, with no value for what it does not name where nothing of it was known in this history, or only that it
    /// was dead: of a life that comes after that the server says everything that it knows (seeds 101709 and 32421).
    /// - Parameter change: one that was done with it: what an update wrote the record need not name; a delete knows what was there
    ///   before only.
    func whole(
        _ record: ServerRecord, _ db: Database, _ work: RecordWork, doing change: StoredChange? = nil
    ) throws -> ServerRecord {
        guard change?.operation != .create, record.presence == .live else { return record }
        let isUnknown = isOfBefore(work)
        let isAnotherLife = !work.base.isLive && !work.base.isAway && record.version > work.version
        guard isUnknown || isAnotherLife else { return record }
        let written = change?.operation == .update ? change?.fields ?? [:] : [:]
        let lacking = try RowWriter(work.entity).dispensable(db).map(\.name).filter {
            record.fields[$0] == nil && written[$0] == nil && (isUnknown || work.base.fields[$0]?.isNull == false)
        }
        guard !lacking.isEmpty else { return record }
        // What a server of an older program does not know, it does not name either (DAT-21).
        let named = try isUnknown ? nil : NamedFields.read(db)
        var whole = record
        for name in lacking where named?.contains(name, of: record.key.entity) ?? true { whole.fields[name] = .null }
        return whole
    }

    /// Whoever holds everything holds what a verdict shows to live, also where a tombstone had taken it; who holds chosen roots
    /// waits for the page.
    func isToKeep(_ db: Database, _ record: ServerRecord) throws -> Bool {
        try record.presence == .live && Scopes.read(db) == nil
    }

    /// A leave that waited for its record's changes is over where what was decided just now puts the record under one that is
    /// here. No page would say so: it may leave out what follows from a change of its request. If that one leaves, too, the
    /// record goes with it.
    private func endLeave(
        _ db: Database, _ work: RecordWork, by change: StoredChange, named fields: [String: FieldValue]
    ) throws {
        guard !isRepeated, change.operation != .delete, work.shown.isLive else { return }
        let moves = work.entity.parents.filter { fields[$0.name] != nil }
        guard !moves.isEmpty, try RowsAtRest(table: table).missingParent(db, of: work) == nil else { return }
        try HeldRecords.forget(db, change.record)
    }

    /// Whether the page of a pass over another history must tell of the record first.
    ///
    /// It will, for what the pass has not brought yet: the server cannot know a version of it here, so no page leaves it
    /// out (PROTOCOL.md, *Records*), and only the page tells which of the old values this history does not have. A verdict
    /// that came before must not stand for it: no version is held, so that none is told, and what the change did not name
    /// stays as it was. A create that was decided just now says all of its record, and may be left out.
    func isLeftToPass(_ db: Database, _ change: StoredChange) throws -> Bool {
        guard let pass, pass.journalsLosses, change.operation != .create || isRepeated, !brought.contains(change.record)
        else { return false }
        return try pass.isNew(db, change.record)
    }

    /// Fields of the change that are not what the record says; sums and unions of several are nobody's loss.
    private func noteLosers(_ db: Database, _ change: StoredChange, _ record: ServerRecord) throws {
        if record.presence != .live {
            if change.operation != .delete { try ChangeNotes.event(db, "died", of: change, now: now) }
        } else if change.operation == .delete {
            let theirs = FieldValue.object(record.fields)
            try ChangeNotes.conflict(
                db, .init(field: nil, mine: .null, theirs: theirs, winner: "theirs", rule: .lastWriter, kind: "lost"),
                of: change, now: now)
            try ChangeNotes.event(db, "deleteLost", of: change, now: now)
        }
        for (name, delta) in change.fields.inByteOrder {
            let theirs = record.fields[name]
            if change.operation == .delete {
                // What an edit said that went into it (``Coalescing``) is lost with it.
                guard record.presence == .live, !delta.new.isNull, theirs?.isSame(as: delta.new) != true else {
                    continue
                }
            } else if record.presence == .live {
                guard delta.rule == .lastWriter || delta.rule == .check || change.operation == .create,
                    let theirs, !theirs.isSame(as: delta.new)
                else { continue }
            }
            try ChangeNotes.conflict(
                db,
                .init(
                    field: name, mine: delta.new, theirs: theirs ?? .null, winner: "theirs", rule: delta.rule,
                    kind: "lost"), of: change, now: now)
        }
    }

    // MARK: Rows and works

    /// The held version of a record comes from this settlement.
    mutating func noteRaised(_ record: RecordKey) {
        raised.insert(record)
        noteBrought(record)
    }

    /// The verdict stands for the record's page, which may leave out what follows from the changes of its request. A
    /// repeated one does not: the record was so when the change was decided, and may be long gone; the page leaves out
    /// nothing for it.
    private mutating func noteBrought(_ record: RecordKey) {
        if !isRepeated { brought.insert(record) }
    }

    /// Rows that changed beside those of the records at work.
    mutating func noteTouched(_ records: [RecordKey]) { touched += records }

    /// The change's row goes.
    mutating func drop(_ db: Database, _ change: StoredChange) throws {
        try ChangeRows.delete(db, position: change.position)
        try ChangeRows.release(db, behind: change)
        if change.state == .failed { try Failures.delete(db, key: change.key) }
        counted -= 1
    }

    /// The record at work, taken out of ``works`` so that it can be changed in place; `nil` for an undeclared entity.
    mutating func takeWork(_ db: Database, _ record: RecordKey) throws -> RecordWork? {
        if let work = works.removeValue(forKey: record) { return work }
        let work = try RecordWork.load(db, record, table.schema, table.deltas)
        if work != nil { order.append(record) }
        return work
    }

    /// The server's state is kept beside the row, so that the row follows from it when what waits is decided.
    mutating func keepBase(_ db: Database, of record: RecordKey) throws {
        if let work = try takeWork(db, record) { works[record] = work }
    }

    /// A create goes into the delete behind it: what was before both is kept, since no `old` says it.
    mutating func keepBase(_ db: Database, before create: StoredChange) throws {
        guard var work = try takeWork(db, create.record) else { return }
        work.fillNulls(before: create)
        works[create.record] = work
    }

    /// Writes what happened to records, and their rows.
    mutating func finish(_ db: Database) throws {
        if !unnamed.isEmpty { try leaveUnnamed(db) }
        if !namedLate.isEmpty { for record in order { works[record]?.rename(namedLate) } }
        for record in order {
            for change in works[record]?.emptied ?? [] {
                try ChangeNotes.event(db, "cancelled", of: change, now: now)
                try drop(db, change)
                try ChangeRows.release(db, blockedBy: change.key)
            }
            works[record]?.holdTold()
            try works[record]?.writeLog(db)
        }
        try markHeld(db)
        if let first = firstAside { try Needs(schema: table.schema).mark(db, after: first) }
        let moved = try markBrought(db)
        if !order.isEmpty { try StayedRows.noteDecided(db, moved) }
        touched += try RowsAtRest(table: table).write(db, order.compactMap { works[$0] })
        if !untold.isEmpty { try StayedRows.noteUntold(db, untold, table.schema) }
        // What was under it died with it, and comes with a new version if it ever lives again; or it was moved away before, and
        // the page says so.
        for (record, version) in deleted where works[record]?.shown.isLive == false {
            try HeldRecords.forget(db, under: record, upTo: version, table.schema)
        }
        if !named.isEmpty { try finishNaming(db) }
        try ChangeRows.count(db, counted)
        (works, order, counted, firstAside, raised, brought, deleted) = ([:], [], 0, nil, [], [], [])
        (untold, named, namedLate, unnamed, referredTo) = ([:], [], [:], [:], nil)
    }

    /// In a full pass, what waited was brought by it: what came before the pass waits no more (seed 2600897).
    private func markHeld(_ db: Database) throws {
        let held = order.filter { works[$0]?.isFirstHeld == true && works[$0]?.version ?? 0 > 0 }
        guard !held.isEmpty else { return }
        let pass = try PassState.read(db)
        guard pass.isRunning else { return }
        for record in held { try pass.mark(db, record) }
    }

    /// In a full pass, what the server has just acknowledged is as good as brought by it: its page may leave out a
    /// record that follows from this device's own changes (PROTOCOL.md, *Records*).
    /// - Returns: those that the pass had not brought yet. They may have been moved before; and what was just made may be, before the
    ///   page, if that is lost with the process: who begins at 0 is not told.
    private func markBrought(_ db: Database) throws -> [RecordKey] {
        guard let pass else { return [] }
        var unseen: [RecordKey] = []
        for record in brought.sorted() {
            if try pass.isNew(db, record) { unseen.append(record) }
            try pass.mark(db, record)
        }
        return unseen
    }
}

extension Settlement.Outcome {
    fileprivate var isSetAside: Bool { if case .setAside = kind { true } else { false } }

    /// The id that the server gave to the record.
    fileprivate var givenID: String? {
        switch kind {
        case .applied(_, _, let serverID): serverID
        // A create that was decided once, nobody knows how, may have been done; and what was asked under this device's id is told under
        // the server's.
        case .merged, .conflict, .setAside: serverID
        case .unanswered: nil
        }
    }
}

extension Settlement.Outcome.Kind {
    /// Whether the outcome says what came of the record; a refusal says of its change only.
    fileprivate var tellsOfRecord: Bool {
        switch self {
        case .applied, .merged, .conflict: true
        case .setAside, .unanswered: false
        }
    }
}
