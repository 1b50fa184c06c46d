import SyncCore

/// What the queue decides: a pure value. Events go in with time and chance; a plan of what to record and claim comes out.
///
/// It awaits nothing, reads no clock and draws no number. One claim is out at a time: the newest counts, and an answer
/// to an older one is ignored, so that whatever is given up or lost on the way neither blocks nor decides anything.
///
///     idle ──take──▶ claimed ──verdicts──▶ recorded, next claimed in the same transaction
///                       │└──failed────▶ recorded as unanswered; waits, or claims half as much
///                       └───lost──────▶ idle: sent again, with the same key
struct UploadQueueMachine: Sendable {
    /// What to do now.
    struct Plan: Sendable {
        /// What to record.
        var settlement = Settlement()
        /// What to claim in the same transaction; `nil` for nothing.
        var limits: ClaimLimits?
        /// Why nothing is claimed.
        var refusal = Refusal.nothing
        /// The app has paused the queue, or the gate is closed.
        var isPaused = false
        /// What to tell, once it is recorded.
        var events: [UploadEvent] = []
        /// How many changes left the queue.
        var left = 0
        /// The set-aside changes that others may need.
        var setAside: [String] = []
        /// Those that miss another record, by key: where that one's create is in the log, they wait for it instead.
        var missing: [String: RecordKey] = [:]
        /// The claim that is under way, where what stands behind it is to be claimed.
        var behind: Claim?

        /// Whether anything has to be written before a claim.
        var isEmpty: Bool { settlement == Settlement() }
    }

    /// Why nothing may be claimed.
    enum Refusal: Sendable, Hashable {
        case nothing
        case wait(untilMilliseconds: Int64, cause: String)
        case needsCredentials
    }

    let policy: UploadPolicy
    let deltas: any DeltaCalculation

    /// The schedule as the log holds it; `nil` before it was read.
    private(set) var durable: QueueSchedule?
    var schedule = QueueSchedule()
    var floors = Floors()
    var size: BatchSize
    var window = ClaimWindow()
    var suspicion = Suspicion()
    /// What certainly never happened although it was sent: each request with it was too large to be looked at. Not kept
    /// over a restart: then it counts as uncertain.
    var undone: Set<String> = []
    /// One change a request (section 2), whatever the policy says.
    var isSingle = false
    /// Those say what fields are to be (``ClaimLimits/sendsValues``).
    var sendsValues = false
    /// The keys of the claim that is out.
    var out: [String]?
    /// The keys of what was claimed behind the claim that is out: marked, and not sent yet.
    var ahead: [String]?
    /// The keys of the claim in front of the one that is out: answered, and not settled yet.
    var inFront: [String]?
    /// The credentials' refusal was read from durable memory: the user's wish tries once whether there are new ones.
    private var refusalIsOld = false
    /// The last failure never reached the server, as far as is known.
    var isOffline = false
    /// When the stuck detector may speak again, by the monotonic clock.
    private var stuckSilence: Int64?

    init(policy: UploadPolicy, deltas: any DeltaCalculation) {
        self.policy = policy
        self.deltas = deltas
        size = BatchSize(configured: policy.limits.maxChanges)
    }

    /// How much a claim may take now.
    var limits: ClaimLimits {
        var limits = policy.limits
        limits.maxChanges = isSingle ? 1 : min(size.current, window.limit ?? .max)
        if sendsValues { limits.sendsValues = true }
        return limits
    }

    /// Whether the log's schedule is known.
    var isLoaded: Bool { durable != nil }

    // MARK: Events

    /// The log's schedule was read: it is taken unless it is the one written last.
    mutating func loaded(_ stored: QueueSchedule, at now: Moment) {
        guard stored != durable else { return }
        if durable == nil { refusalIsOld = stored.needsCredentials }
        durable = stored
        schedule = stored
        // Whether an earlier run waited for the network is not known any more: the first request that works says so.
        isOffline = stored.notBeforeMilliseconds != nil
        let heard = floors.server
        floors = Floors(stored, at: now, longestOwn: policy.longestDelay)
        // What the server asked for and could not be recorded still binds.
        floors.server = [floors.server, heard].compactMap { $0 }.max()
        size = BatchSize(configured: policy.limits.maxChanges, limit: stored.batchLimit)
    }

    /// Somebody asks for what may go.
    mutating func take(_ urgency: Urgency, isPaused: Bool, at now: Moment) -> Plan {
        forgetClaims()
        var plan = Plan()
        admit(urgency, isPaused: isPaused, at: now, &plan)
        return plan
    }

    /// The app says that there are new credentials.
    mutating func credentialsChanged(at now: Moment) -> Plan {
        var plan = Plan()
        guard schedule.needsCredentials else { return plan }
        schedule.needsCredentials = false
        schedule.cause = nil
        schedule.failures = 0
        floors.own = nil
        plan.events.append(.resumed("there are new credentials"))
        keepSchedule(at: now, &plan)
        return plan
    }

    /// A probe came back: an empty sync, or a read, that worked or did not.
    mutating func probed(succeeded: Bool, at now: Moment) -> Plan {
        var plan = Plan()
        let members = suspicion.probed(succeeded: succeeded)
        if succeeded { inReach(at: now, &plan) }
        guard !members.isEmpty else { return plan }
        for member in members {
            let isOver = member.attempts >= policy.maxAttempts
            let reason = SetAsideReason(
                code: "tooManyAttempts",
                message: "It failed \(member.attempts) times while the server answered everything else"
                    + (schedule.cause.map { " (\($0))." } ?? "."))
            plan.settlement.outcomes.append(
                Settlement.Outcome(changeID: member.id, kind: .unanswered(attempts: member.attempts)))
            guard isOver else { continue }
            plan.settlement.outcomes.append(
                Settlement.Outcome(changeID: member.id, kind: .setAside(reason, staysUncertain: true)))
            plan.left += 1
            plan.setAside.append(member.id)
            plan.events.append(.setAside(member.id, reason))
        }
        if !plan.setAside.isEmpty {
            suspicion.answered()
            schedule.failures = 0
            schedule.cause = nil
            floors.own = nil
        }
        keepSchedule(at: now, &plan)
        return plan
    }

    /// The server asked for a pause with an answer, or a refusal, that was about no change: it binds all that follows.
    mutating func asked(pauseSeconds: Double, at now: Moment) -> Plan {
        var plan = Plan()
        floors.raise(server: pauseSeconds, changes: nil, at: now)
        keepSchedule(at: now, &plan)
        return plan
    }

    /// The plan was recorded, and this is what the log claimed for it.
    mutating func recorded(_ plan: Plan, _ claim: Claim, at now: Moment) -> (Take, [UploadEvent]) {
        var events: [UploadEvent] = []
        if let written = plan.settlement.schedule { durable = written }
        loaded(claim.summary.schedule, at: now)
        if let stuck = stuck(claim.summary, plan, at: now) { events.append(stuck) }
        if plan.behind != nil {
            // Told as sent when it goes.
            ahead = claim.changes.isEmpty ? nil : claim.changes.map(\.change.id)
            return (claim.changes.isEmpty ? .nothing(claim.summary) : .batch(claim), events)
        }
        if !claim.changes.isEmpty {
            out = claim.changes.map(\.change.id)
            refusalIsOld = false
            events.append(.sent(claim.changes.map(\.change.id)))
            return (.batch(claim), events)
        }
        switch plan.refusal {
        case .nothing: return (.nothing(claim.summary), events)
        case .wait(let until, let cause):
            return (.wait(untilMilliseconds: until, cause: cause, claim.summary), events)
        case .needsCredentials: return (.needsCredentials(claim.summary), events)
        }
    }

    /// The plan could not be recorded: nothing happened, but what the server asked for still binds.
    mutating func notRecorded(_ planned: UploadQueueMachine) {
        // What was to be settled is given up and sent again; what is out beside the plan is still out.
        out = planned.out
        (ahead, inFront) = (nil, nil)
        floors.server = [floors.server, planned.floors.server].compactMap { $0 }.max()
        floors.changes = [floors.changes, planned.floors.changes].compactMap { $0 }.max()
    }

    /// A request without changes was answered: what only said that nobody can be reached, or believed, is over.
    private mutating func inReach(at now: Moment, _ plan: inout Plan) {
        if schedule.needsCredentials {
            schedule.needsCredentials = false
            schedule.cause = nil
            plan.events.append(.resumed("the server takes the credentials again"))
            keepSchedule(at: now, &plan)
        }
        guard isOffline else { return }
        isOffline = false
        guard floors.own != nil else { return }
        floors.own = nil
        schedule.failures = 0
        schedule.cause = nil
        plan.events.append(.resumed("the server is in reach again"))
        keepSchedule(at: now, &plan)
    }

    // MARK: Shared by the events

    /// Whether these are the changes that are out; what is not is a late answer. The claim is over with this.
    mutating func takesBack(_ claim: Claim) -> Bool {
        if let inFront, Self.areKeys(inFront, of: claim) {
            self.inFront = nil
            return true
        }
        guard let out, Self.areKeys(out, of: claim) else { return false }
        (self.out, ahead) = (nil, nil)
        return true
    }

    /// Decides whether anything may be claimed now.
    mutating func admit(_ urgency: Urgency, isPaused: Bool, at now: Moment, _ plan: inout Plan) {
        plan.limits = nil
        plan.isPaused = isPaused
        guard !isPaused else {
            plan.refusal = .nothing
            return
        }
        if let until = floors.standing(urgency, at: now) {
            plan.refusal = .wait(
                untilMilliseconds: now.wall + (until - now.elapsed),
                cause: schedule.cause ?? "the server asked for a pause")
        } else if schedule.needsCredentials && !(urgency == .user && refusalIsOld) {
            plan.refusal = .needsCredentials
        } else if suspicion.holdsBack() {
            plan.refusal = .wait(
                untilMilliseconds: now.wall, cause: "something else is asked first, to see whether the server works")
        } else {
            plan.limits = limits
        }
    }

    /// Puts the schedule into the plan if the log holds another one.
    func keepSchedule(at now: Moment, _ plan: inout Plan) {
        var next = schedule
        floors.write(into: &next, at: now)
        next.batchLimit = size.limit
        if next != durable { plan.settlement.schedule = next }
    }

    /// The watchdog: the oldest change has waited for long although the server is in reach; with what it waits for.
    private mutating func stuck(_ summary: QueueSummary, _ plan: Plan, at now: Moment) -> UploadEvent? {
        let threshold = policy.stuckAfter.milliseconds
        guard !isOffline, let oldest = summary.oldestMilliseconds, now.wall - oldest >= threshold else { return nil }
        if let stuckSilence, now.elapsed < stuckSilence { return nil }
        stuckSilence = now.elapsed + threshold
        return .stuck(ageMilliseconds: now.wall - oldest, cause: cause(of: plan))
    }

    /// What the queue waits for, in words.
    private func cause(of plan: Plan) -> String {
        if schedule.needsCredentials { return "the server refused the credentials" }
        if case .wait(_, let cause) = plan.refusal, plan.limits == nil { return cause }
        if plan.isPaused { return "the queue is paused, or its gate is closed" }
        return schedule.cause ?? "it has not had its turn yet"
    }
}
