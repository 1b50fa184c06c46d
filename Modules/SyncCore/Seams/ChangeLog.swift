/// The queue's durable memory: settle what is decided and claim what goes next, in one transaction.
///
/// Asked for by UploadQueue, given by Storage; `InMemoryChangeLog` of SyncTesting fakes it, and SyncTesting's contract
/// suite says what each implementer must guarantee: one call is one transaction; a claim is durable before it returns;
/// order is the queue's; what was claimed once keeps key and content for ever.
public protocol ChangeLog: Sendable {
    /// Records what was decided, keeps `schedule`, and claims what goes next; nothing is claimed without `claim`.
    ///
    /// Outcomes about changes that are no longer in the log are ignored (a late answer). The claim gives, in the
    /// queue's order: first what was sent before and has no verdict, as it was; then what was never sent, after merging
    /// neighbours. It leaves out what is blocked by a change set aside, never divides a unit, and stops before a limit
    /// is passed, but for a first change or unit that passes it alone.
    /// - Throws: ``StoreFailure``; then nothing was recorded and nothing claimed.
    func settle(_ settlement: Settlement, claim: ClaimLimits?) async throws(StoreFailure) -> Claim
    /// A hint, while the answer to this claim is awaited: when it is settled, a claim with these limits is likely to follow.
    ///
    /// A log may look ahead, so that the settlement need not; it changes nothing that anybody can see, and what it found is
    /// of use only as long as nothing else has happened. By default it does nothing.
    func prepare(after claim: Claim, limits: ClaimLimits) async
    /// As ``settle(_:claim:)``, while another claim is under way: records what was decided of changes in front of it, and
    /// claims what stands behind it, so that it can go as soon as that one is answered.
    ///
    /// Nothing is claimed that the answer to `claim` could make another: no change of a record that `claim` has one of, none
    /// that was sent before, and none at all while anything is set aside or waits. A log may claim nothing, and
    /// settle as ever.
    /// - Throws: ``StoreFailure``; then nothing was recorded and nothing claimed.
    func settle(
        _ settlement: Settlement, behind claim: Claim, limits: ClaimLimits?
    ) async throws(StoreFailure) -> Claim
    /// Takes a claim back that ``settle(_:behind:limits:)`` gave and that certainly never left this device: its changes are as
    /// they were before; or, where a log cannot do that, sent without an answer (``countAsSent(_:)``).
    ///
    /// There is no default for this and the one above: who has an actor whose own method does not wait, and not the seam, would get
    /// the default without a word (Decision 353).
    /// - Throws: ``StoreFailure``; then they are sent again as what has no answer.
    func putBack(_ claim: Claim) async throws(StoreFailure)
    /// The queue's counts and its durable schedule.
    func summary() async throws(StoreFailure) -> QueueSummary
    /// Speaks after each commit that put something into the queue or freed it; starts silent, keeps only the newest.
    func notices() -> AsyncStream<Void>
}

extension ChangeLog {
    public func prepare(after claim: Claim, limits: ClaimLimits) async {}

    /// Counts what was claimed as sent without an answer: what ``putBack(_:)`` is for a log that takes no mark back.
    public func countAsSent(_ claim: Claim) async throws(StoreFailure) {
        let outcomes = claim.changes.map {
            Settlement.Outcome(changeID: $0.change.id, kind: .unanswered(attempts: $0.attempts))
        }
        _ = try await settle(Settlement(outcomes: outcomes), claim: nil)
    }
}

/// How much one claim may take.
public struct ClaimLimits: Sendable, Hashable {
    public var maxChanges: Int
    /// About so many bytes of encoded fields.
    public var maxBytes: Int
    /// Whether neighbours of one record that were never sent are merged first.
    public var merges: Bool
    /// Whether what is claimed goes out as values, which replace the server's, and not as differences, which are added to them.
    ///
    /// Sums, sets and fields under check were then worked out from what was here when they were written. Where the server's word came
    /// since, such a change is claimed for the first time with a `baseVersion` below the one held: the server refuses it as a
    /// conflict, and a successor is made from what it has (Decision 494). It means nothing to a log that knows no records.
    public var sendsValues: Bool

    public init(maxChanges: Int = 1_000, maxBytes: Int = 4 << 20, merges: Bool = true, sendsValues: Bool = false) {
        self.maxChanges = maxChanges
        self.maxBytes = maxBytes
        self.merges = merges
        self.sendsValues = sendsValues
    }
}

/// Changes that were marked as being sent, and what goes with them in the same request.
public struct Claim: Sendable, Hashable {
    /// In the queue's order.
    public var changes: [QueuedChange]
    /// Every change of this device up to this sequence is decided and recorded, or was cancelled unsent.
    public var settled: Int64
    public var deviceID: String
    /// What is in the queue after this claim.
    public var summary: QueueSummary

    public init(changes: [QueuedChange], settled: Int64, deviceID: String, summary: QueueSummary) {
        self.changes = changes
        self.settled = settled
        self.deviceID = deviceID
        self.summary = summary
    }
}

/// A change with its place in life.
public struct QueuedChange: Sendable, Hashable {
    public enum State: String, Sendable, Hashable, CaseIterable {
        /// Never sent.
        case pending
        /// Claimed by a sender that is at work.
        case uploading
        /// Was sent, and has no verdict.
        case uncertain
        /// Waits for a change that was set aside.
        case blocked
        /// Set aside, with a reason.
        case failed
    }

    public var change: Change
    public var state: State
    /// Attempts that failed by the change's own fault (PROTOCOL.md section 4, *suspect*).
    public var attempts: Int
    /// Conflicts in a row of this change and those that it succeeds.
    public var conflicts: Int
    /// The change that it waits for, where it is blocked.
    public var blockedBy: String?
    /// When it was made, milliseconds since 1970 by the device's clock.
    public var madeAtMilliseconds: Int64
    /// In a claim, whether it was sent before: it may have been done then, whatever becomes of this sending.
    public var wasSent: Bool

    public init(
        change: Change, state: State = .pending, attempts: Int = 0, conflicts: Int = 0, blockedBy: String? = nil,
        madeAtMilliseconds: Int64 = 0, wasSent: Bool = false
    ) {
        self.wasSent = wasSent
        self.change = change
        self.state = state
        self.attempts = attempts
        self.conflicts = conflicts
        self.blockedBy = blockedBy
        self.madeAtMilliseconds = madeAtMilliseconds
    }
}

/// What became of changes that were claimed.
public struct Settlement: Sendable, Hashable {
    public struct Outcome: Sendable, Hashable {
        public enum Kind: Sendable, Hashable {
            /// Done as sent (PROTOCOL.md, `applied`): the change goes; base and version move.
            case applied(version: Int64?, overwrote: [String: FieldValue], serverID: String?)
            /// Somebody else won at least in part: `record` becomes the base, later deltas are replayed, losers journalled.
            case merged(ServerRecord)
            /// Nothing was done: `record` becomes the base, and a successor with these deltas (with `old` from `record`)
            /// takes the change's place, with a new key and sequence. Without deltas the change is over: the record
            /// already says what it wanted.
            case conflict(ServerRecord, successor: [String: FieldDelta]?)
            /// Set aside with its reason; `staysUncertain` where it never got a verdict (a suspect at its last attempt).
            ///
            /// Two codes are not failures: `missingReference` to a record whose own create is in the log makes a
            /// successor that is blocked by that create; `expired` was decided once, so the change goes, with an event, and so does
            /// a change of an earlier device id with `keyReused`.
            case setAside(SetAsideReason, staysUncertain: Bool)
            /// No verdict: stays as it is and is sent again with the same key and content; `attempts` is its new count.
            /// Another outcome for the same change may follow in the settlement: counted, then set aside.
            case unanswered(attempts: Int)
        }
        public var changeID: String
        public var kind: Kind
        /// The server counted a stamp too far ahead as its now: an event.
        public var isClamped: Bool
        /// The change was decided by an earlier request (PROTOCOL.md, `duplicate`): what it says of the record was so then.
        public var isRepeated: Bool
        /// The id that a server with ids of its own gave, beside `merged`, or a refusal of what was decided once; `applied` has it within.
        public var serverID: String?

        public init(
            changeID: String, kind: Kind, isClamped: Bool = false, isRepeated: Bool = false, serverID: String? = nil
        ) {
            self.serverID = serverID
            self.isRepeated = isRepeated
            self.changeID = changeID
            self.kind = kind
            self.isClamped = isClamped
        }
    }

    /// In the order of the queue.
    public var outcomes: [Outcome]
    /// The queue's schedule from now on; `nil` leaves it.
    public var schedule: QueueSchedule?
    /// The highest stamp of the answer: the device's clock moves past it in the same transaction.
    public var stamp: Stamp?

    public init(outcomes: [Outcome] = [], schedule: QueueSchedule? = nil, stamp: Stamp? = nil) {
        self.outcomes = outcomes
        self.schedule = schedule
        self.stamp = stamp
    }
}

/// Why a change was set aside; durable, shown to the user.
public struct SetAsideReason: Sendable, Hashable {
    /// A contract's code (`invalid`, `forbidden`, …), or one of this side's own: `tooManyAttempts`, `tooLarge`, `gone`,
    /// `serverIDTaken` (for two records the server told one id), `reasonLost` (with a page of a damaged file).
    public var code: String
    /// A sentence for people.
    public var message: String
    public var field: String?
    /// The id of the record that is missing, for `missingReference`; of the one that has the server's id here, for `serverIDTaken`.
    public var reference: String?
    /// The HTTP status, where one request carried one change.
    public var status: Int?

    public init(code: String, message: String, field: String? = nil, reference: String? = nil, status: Int? = nil) {
        self.code = code
        self.message = message
        self.field = field
        self.reference = reference
        self.status = status
    }
}

/// When the queue may send again, and why it waits; survives a restart.
public struct QueueSchedule: Sendable, Hashable {
    /// Failures in a row that count for back-off.
    public var failures: Int
    /// Not before this time by our own back-off, milliseconds since 1970; the user's wish goes past it.
    public var notBeforeMilliseconds: Int64?
    /// Not before this time by the server's word (`Retry-After`, `Backoff`); nothing goes past it.
    public var serverNotBeforeMilliseconds: Int64?
    /// No change before this time by a verdict's word (`retry` with `retryAfter`); nothing goes past it, but pulls go on.
    public var changesNotBeforeMilliseconds: Int64?
    /// The server refused the credentials, and new ones were not to be had.
    public var needsCredentials: Bool
    /// The most changes in one request since a 413 or an unknown failure halved it; `nil` is the configured size.
    public var batchLimit: Int?
    /// The last failure, in words.
    public var cause: String?

    public init(
        failures: Int = 0, notBeforeMilliseconds: Int64? = nil, serverNotBeforeMilliseconds: Int64? = nil,
        changesNotBeforeMilliseconds: Int64? = nil, needsCredentials: Bool = false, batchLimit: Int? = nil,
        cause: String? = nil
    ) {
        self.failures = failures
        self.notBeforeMilliseconds = notBeforeMilliseconds
        self.serverNotBeforeMilliseconds = serverNotBeforeMilliseconds
        self.changesNotBeforeMilliseconds = changesNotBeforeMilliseconds
        self.needsCredentials = needsCredentials
        self.batchLimit = batchLimit
        self.cause = cause
    }

    /// Before when no change goes by itself, milliseconds since 1970: the latest of the times that are still to come;
    /// `nil` where none is.
    public func nextAttempt(afterMilliseconds now: Int64) -> Int64? {
        [notBeforeMilliseconds, serverNotBeforeMilliseconds, changesNotBeforeMilliseconds]
            .compactMap { $0 }.filter { $0 > now }.max()
    }
}

/// What is in the queue.
public struct QueueSummary: Sendable, Hashable {
    /// Never sent, and free to go.
    public var pending: Int
    /// Sent, without a verdict (with those being sent now).
    public var inFlight: Int
    public var blocked: Int
    public var failed: Int
    /// When the oldest change that is neither failed nor blocked was made, milliseconds since 1970.
    public var oldestMilliseconds: Int64?
    public var schedule: QueueSchedule

    public init(
        pending: Int = 0, inFlight: Int = 0, blocked: Int = 0, failed: Int = 0, oldestMilliseconds: Int64? = nil,
        schedule: QueueSchedule = QueueSchedule()
    ) {
        self.pending = pending
        self.inFlight = inFlight
        self.blocked = blocked
        self.failed = failed
        self.oldestMilliseconds = oldestMilliseconds
        self.schedule = schedule
    }

    /// Whether a claim could give anything.
    public var hasWork: Bool { pending + inFlight > 0 }

    /// Nothing is unsent, and nothing is set aside or waits behind that.
    public var isEmpty: Bool { !hasWork && blocked == 0 && failed == 0 }
}
