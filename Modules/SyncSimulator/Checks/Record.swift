import SyncCore
import SyncTesting

/// What a run of a seed has seen: its trace, the faults that struck, the situations reached, the violations.
final class Record: @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let executor: SeededExecutor
    private let keepsLines: Bool
    private let onLine: (@Sendable (String) -> Void)?
    private(set) var lines: [String] = []
    private(set) var coverage: [Situation: Int] = [:]
    private(set) var faults: [String: Int] = [:]
    private(set) var violations: [Violation] = []
    private(set) var localWrites = 0
    /// Devices that wrote something.
    private(set) var writers: Set<Int> = []
    /// Changes that something struck, by its name.
    private var struckKeys: [String: Set<String>] = [:]
    /// Keys that the server has done or merged, or answered with what leaves nothing to do (`conflict`, `expired`).
    private(set) var accepted: Set<String> = []
    /// Keys in the order in which the server did them first.
    private(set) var order: [String] = []
    /// Keys that it refused, or answered with `conflict`: another change stands in their place, if any.
    private(set) var refused: Set<String> = []
    /// Keys of creates that it refused, since there is a record of that id.
    private(set) var taken: Set<String> = []
    /// Records of which it did a create, or says that it once did (seed 2356), or that it told of.
    private(set) var created: Set<RecordKey> = []
    /// What was sent under each key the first time.
    private(set) var sent: [String: Change] = [:]
    /// The device id that it was sent with, and that with which the server did it.
    private var sentBy: [String: String] = [:]
    private(set) var doneBy: [String: String] = [:]
    /// By the keys of what was answered: in which history that was last.
    private(set) var answeredIn: [String: String] = [:]
    /// The same of restored devices, which send what was made under another id, by that key and the device's id.
    private var sentAgain: [String: Change] = [:]
    /// Whether a device wrote this field of a change's record in the change, or before it; with a value, whether it wrote that.
    var isWritten: (Int, Change, String, FieldValue?) -> Bool = { _, _, _, _ in true }
    /// Sees the keys that the server had a last word for, and whose request it was.
    var onVerdicts: ([String], Int) -> Void = { _, _ in }
    /// Whether a change stands in the queues of two living copies of one device.
    var isCommon: (String) -> Bool = { _ in false }
    /// Whether somebody gave up a create of the record.
    var isGivenUp: (RecordKey) -> Bool = { _ in false }
    /// Whether what waits for a row that stays on its device gets another number when that is shared: a copy may have sent it by the old
    /// one (seed 190 with `--drafts`).
    var renumbers = false
    /// Sees each request as it leaves a device.
    var onRequest: (ExchangeRequest, Int) -> Void = { _, _ in }

    init(executor: SeededExecutor, keepsLines: Bool, onLine: (@Sendable (String) -> Void)?) {
        self.onLine = onLine
        self.executor = executor
        self.keepsLines = keepsLines
    }

    /// Whether somebody reads the lines.
    var isRead: Bool { keepsLines || onLine != nil }

    /// One event of the trace.
    func note(_ event: @autoclosure () -> String) {
        let text = event()
        executor.note(text)
        guard keepsLines || onLine != nil else { return }
        let line = "\(executor.clock.now.elapsed) \(text)"
        if keepsLines { lines.append(line) }
        onLine?(line)
    }

    /// Something for who reads the trace, and no part of what two runs are compared by.
    func detail(_ text: @autoclosure () -> String) {
        guard isRead else { return }
        let line = "  \(text())"
        if keepsLines { lines.append(line) }
        onLine?(line)
    }

    func cover(_ situation: Situation) { coverage[situation, default: 0] += 1 }

    /// A fault had an effect.
    func struck(_ fault: String) { faults[fault, default: 0] += 1 }

    /// The same for one that meets the same change again and again: the first time counts.
    func struck(_ fault: String, of key: String) {
        if struckKeys[fault, default: []].insert(key).inserted { struck(fault) }
    }

    /// A device's user changed something.
    func wrote(_ device: Int) {
        localWrites += 1
        writers.insert(device)
    }

    var faultCount: Int { faults.values.reduce(0, +) }

    func violate(_ invariant: String, _ message: @autoclosure () -> String) {
        let text = message()
        // What is compared leaves the words out: they may hold a dictionary, whose order is chance.
        executor.note("VIOLATION \(invariant)")
        detail("\(executor.clock.now.elapsed) VIOLATION \(invariant): \(text)")
        // One of a kind is enough to look at.
        guard violations.count < 20 else { return }
        violations.append(
            Violation(invariant: invariant, message: text, at: executor.clock.now.elapsed))
    }

    /// What a device sent under a key the first time that it said it under this id.
    func content(of key: String, from deviceID: String) -> Change? {
        sentBy[key] == deviceID ? sent[key] : sentAgain[key + deviceID]
    }

    /// A request left a device: the same key must mean the same content for ever.
    func saw(_ request: ExchangeRequest, from device: Int) {
        if Set(request.changes.map(\.id)).count != request.changes.count {
            violate("I2", "device \(device) sent one key twice in a request")
        }
        onRequest(request, device)
        for change in request.changes {
            guard let first = sent[change.id] else {
                sent[change.id] = change
                sentBy[change.id] = request.deviceID
                detail(change.words)
                continue
            }
            // A device whose power went is a copy of itself, time and again.
            let isCopy = request.deviceID != sentBy[change.id]
            // A copy, too, says the same whenever it says it.
            let own = isCopy ? sentAgain[change.id + request.deviceID, default: change] : first
            if isCopy { sentAgain[change.id + request.deviceID] = own }
            var again = change
            again.deviceID = own.deviceID
            if again != own { violate("I2", "the key \(change.id) was sent with other content: \(own) then \(change)") }
            if isCopy,
                !change.mayBeCopy(
                    of: first, renumbers: renumbers, isWritten: { isWritten(device, change, $0, $1) })
            {
                violate("I2", "the key \(change.id) was sent with other content: \(first) then \(change)")
            }
        }
    }

    /// A device reads these of a page or of a verdict: they were made, whether anybody heard the verdict of that or not (seed 27741).
    func told(_ records: some Sequence<ServerRecord>) {
        for record in records where record.presence == .live { created.insert(record.key) }
    }

    /// An answer leaves the server.
    /// - Parameter isOvertaken: the request is of a process that stood still, and another one has settled it since, perhaps; or went by REST,
    ///   which says `expired` of what was asked for by another path before.
    func heard(_ answer: ExchangeAnswer, of request: ExchangeRequest, device: Int, isOvertaken: Bool = false) {
        onVerdicts(answer.results.filter(\.isLastWord).map(\.changeID), device)
        for result in answer.results {
            switch result.verdict {
            case .applied, .merged:
                if !accepted.contains(result.changeID) {
                    order.append(result.changeID)
                    doneBy[result.changeID] = request.deviceID
                    if let change = request.changes.first(where: { $0.id == result.changeID }),
                        change.operation == .create
                    {
                        created.insert(change.record)
                    }
                }
            default: break
            }
            answeredIn[result.changeID] = answer.epoch
            if result.isDuplicate { cover(.duplicateVerdict) }
            if result.serverIDOfMade != nil { cover(result.isDuplicate ? .namedLate : .namedOtherwise) }
            if result.isClamped { cover(.clampedStamp) }
            switch result.verdict {
            case .merged(let record):
                cover(.mergedVerdict)
                accepted.insert(result.changeID)
                if record.presence == .deleted { cover(.updateOfDeadRecord) }
            case .conflict:
                cover(.checkConflict)
                accepted.insert(result.changeID)
                refused.insert(result.changeID)
            case .blocked(let by):
                switch answer.results.first(where: { $0.changeID == by })?.verdict {
                case .rejected? where request.makesParent(by, of: result.changeID): cover(.blockedByRefusal)
                case .retry?: cover(.blockedByRetry)
                default: break
                }
            case .rejected(let rejection):
                cover(.refusal)
                refused.insert(result.changeID)
                if rejection.code == .idTaken {
                    taken.insert(result.changeID)
                    cover(.takenID)
                }
                let change = request.changes.first { $0.id == result.changeID }
                if rejection.code.meansDecided(under: change?.deviceID) {
                    accepted.insert(result.changeID)
                    if let change, change.operation == .create { created.insert(change.record) }
                } else if rejection.code == .keyReused, !isCommon(result.changeID) {
                    // Where a copy of the device lives, that one may have sent it with other stamps (Decision 155).
                    violate("I2", "device \(device): \(rejection.message)")
                }
                // A device that settled a sequence does not use it again, for whatever change.
                if rejection.code == .invalid
                    || rejection.code == .expired && change?.deviceID == nil && !isOvertaken
                {
                    violate(
                        "I1", "device \(device) uses a sequence again: \(rejection.message), \(result.changeID)")
                }
            case .retry: cover(.retryVerdict)
            case .applied: accepted.insert(result.changeID)
            }
        }
    }
}

extension ExchangeRequest {
    /// Whether the first of these changes makes a record that the other one's record names.
    fileprivate func makesParent(_ first: String, of other: String) -> Bool {
        guard let maker = changes.first(where: { $0.id == first }), maker.operation == .create,
            let child = changes.first(where: { $0.id == other }), child.record != maker.record
        else { return false }
        return child.fields.values.contains { $0.new == .string(maker.record.id) }
    }
}

extension ChangeResult {
    /// Whether nothing more comes of the change under this key.
    fileprivate var isLastWord: Bool {
        switch verdict {
        case .applied, .merged, .conflict, .rejected: true
        case .blocked, .retry: false
        }
    }
}

extension Change {
    /// What it says, for who reads a trace.
    fileprivate var words: String {
        let parts = fields.sorted { $0.key < $1.key }.map { name, delta in
            let stamp = delta.stamp.map { " at \($0.packed)" } ?? ""
            return "\(name) \(delta.rule) \(delta.old ?? .null) to \(delta.new)\(stamp)"
        }
        return "\(id.suffix(6)) over \(baseVersion ?? 0) at \(stamp.packed): \(parts.joined(separator: ", "))"
    }

    /// Whether a restored device may send this under the key that the device before it sent `first` with: it has the stamps
    /// and the base version that it knows, the values before follow what comes of the changes before (Decision 155), and it may
    /// have merged other neighbours into it (Decision 175). What only one names, the device wrote in an earlier change; so it
    /// did what one of them writes otherwise, since the device before took that back after the backup (seed 3100).
    /// - Parameter renumbers: whether its number may be another one.
    func mayBeCopy(of first: Change, renumbers: Bool = false, isWritten: (String, FieldValue?) -> Bool) -> Bool {
        guard record == first.record, renumbers || sequence == first.sequence, schemaVersion == first.schemaVersion,
            unit == first.unit, intent == first.intent,
            (operation == .delete) == (first.operation == .delete)
        else { return false }
        for name in Set(fields.keys).union(first.fields.keys) {  // any order
            guard let mine = fields[name], let theirs = first.fields[name] else {
                guard isWritten(name, nil) else { return false }
                continue
            }
            // A create's fields are plain writes under every rule.
            guard operation != first.operation || mine.rule == theirs.rule else { return false }
            // What it writes is the same, as far as it is no difference.
            if mine.rule == .sum || mine.rule == .union { continue }
            guard mine.new.isSame(as: theirs.new) || operation != first.operation || isWritten(name, mine.new) else {
                return false
            }
        }
        return true
    }
}

/// Something that must never happen, and did.
public struct Violation: Sendable, Hashable, CustomStringConvertible {
    /// Which of DESIGN.md's invariants.
    public let invariant: String
    public let message: String
    /// The virtual time.
    public let at: Duration

    public var description: String { "\(invariant) at \(at): \(message)" }
}

/// Situations that a run must have reached to be worth something.
public enum Situation: String, Sendable, Hashable, CaseIterable {
    case answerLostAfterCommit = "an answer lost after commit"
    case duplicateAfterLostAnswer = "an answer lost after commit, and then a duplicate"
    case duplicateVerdict = "a duplicate"
    case lateCopyOfRequest = "a late copy of a request"
    case reorderedRequest = "a request that arrived for the first time after a later one"
    case lateEffect = "a request that took effect after its device had given up on it"
    case otherDeployment = "an answer of another deployment"
    case missingVerdict = "a missing verdict"
    case severalPages = "a pull over several pages"
    case foreignAnswer = "an answer of a foreign epoch"
    case clampedStamp = "a clamped stamp"
    case mergedVerdict = "a merged verdict"
    case updateOfDeadRecord = "an update of a dead record"
    case checkConflict = "a conflict under check"
    case refusal = "a refusal"
    case blockedByRefusal = "a child blocked by a refused parent"
    case blockedByRetry = "a change blocked by one that is put off"
    case retryVerdict = "a retry verdict"
    case breakerOpened = "a breaker that opened"
    case halfOpenSucceeded = "a breaker's half-open probe that succeeded"
    case halfOpenFailed = "a breaker's half-open probe that failed"
    case crashAtStatement = "a crash at a statement"
    case crashInTransaction = "a crash inside a transaction"
    case crashBetweenEffectAndAcknowledgement = "a crash between effect and acknowledgement"
    case restart = "a restart"
    case sameDevice = "a device that opened its files again, and is the same"
    case suspension = "a suspension"
    case offline = "time without a network"
    case clockJump = "a jump of a device's clock"
    case crashInOpening = "a crash while a file is opened"
    case fullDisk = "a write to a full disk"
    case diskError = "a write or a sync that the disk refused"
    case busyFile = "a write that found the file busy"
    case unreadableDisk = "a read that the disk refused"
    case failedOpening = "an opening at which the disk failed"
    case lockedFile = "a file locked by another process"
    case loserRestored = "the losing value of a conflict written again"
    case lostRestored = "what history lost on the server sent again"
    case secondProcess = "two processes with one file"
    case leaseTakenOver = "a lease taken over from a process that stood still"
    case newEpochWithFullQueue = "a new epoch with a full queue"
    case serverRestored = "a server restored from a backup"
    case serverCrashAtStatement = "a server killed between two statements"
    case serverCrashAfterCommit = "a server killed between commit and answer"
    case expiredCheckpoint = "an expired checkpoint"
    case tombstonesPruned = "dead records that the reference server forgot altogether"
    case deviceRestored = "a device restored from a backup"
    case damagedFile = "a damaged file that was moved aside"
    case heldBack = "a record that its user holds back"
    case letGo = "a record that was held back, and is let go"
    case keptLocal = "a row that its user keeps on the device"
    case shared = "a row that stayed on its device, and is shared"
    case settledHeard = "an app that waited for what it wrote, and heard what became of it"
    case conditionsHeld = "a sync that waits for another network, or for power"
    case conditionsEnded = "a network that began to cost, or power that went, while a request was under way"
    case deviceCloned = "a device that lives beside a copy of itself, and both write"
    case sentByBothCopies = "a change that two living copies of one device sent"
    case accountSwitch = "another account on a device whose user signed out"
    case unsentGivenUp = "a sign-out that gave up unsent changes"
    case powerLoss = "a device whose power went, with commits that were not synced"
    case powerLossInCheckpoint = "a device whose power went in a checkpoint"
    case tombstoneUnderUnsentChild = "a tombstone over an unsent child"
    case expiredToken = "a token that expired, and no other to be had"
    case renewedToken = "a token that expired and was renewed"
    case otherAccount = "a file that another account wants"
    case mixedSchemas = "an app that is a version behind"
    case unitSent = "an atomic unit sent whole"
    case otherReference = "a record that refers to one that is not its parent"
    case madeAgain = "a record made again under its id"
    case takenID = "a create of an id that is there already"
    case namedOtherwise = "a record that the server called otherwise than its device"
    case namedLate = "a record whose other id came with the repetition of its create"
    case shownBeforeNamed = "a record that came under the server's id before its device was told that"
    case cancelled = "a change taken back"
    case takenBackByInverse = "a sent change taken back by its inverse"
    case discarded = "a change given up"
    case retried = "a refused change tried again"
    case smallRequests = "requests of few changes"
    case requestTooLarge = "a request with more changes than the server takes"
    case requestBeforeSettled = "a request that left before the one in front of it was settled"
    case claimPutBack = "changes claimed while a request was under way that failed"
    case contentsCompared = "contents that were compared with the server's by their checksum"
    case scopeAdded = "a root added to those that a device holds"
    case scopeAddedInFullPass = "a root added while a full pass runs"
    case scopeDroppedWithUnsent = "a root dropped with unsent changes"
    case recordLeft = "a record that moved out of what a device holds"
    case leftWithUnsent = "a record moved out of what a device holds, with an unsent change on it"
    case hinted = "a hint that somebody listened to"
    case roundGivenUp = "a sync that was given up when its time was over"
    case fullPassAwaitsConfirmation = "a full pass that waits for the app's word"
}
