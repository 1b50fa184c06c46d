import SyncCore

/// Who is to blame for requests that fail again and again (PROTOCOL.md section 4, *suspect*).
///
///     several fail ──(halveAfter in a row)──▶ halve … until one stands alone
///     alone fails ──(suspectAfter in a row)──▶ probe wanted ──works──▶ its own failures: attempts counted
///                                                          └─fails──▶ the server's: all forgotten
///
/// A unit cannot be divided, so its members stand alone together.
struct Suspicion: Sendable, Hashable {
    /// A change that failed alone, with the attempts counted so far.
    struct Member: Sendable, Hashable {
        var id: String
        var attempts: Int
    }

    /// The change that stands alone, or its whole unit.
    private(set) var members: [Member] = []
    /// Its failures in a row that are not counted yet.
    private(set) var failures = 0
    /// A probe has worked before: from now on every further failure wants one.
    private var isConfirmed = false
    /// Whether the next request must be something else.
    private(set) var wantsProbe = false
    /// How often it was held back for a probe that did not come.
    private var refusals = 0
    /// Failures in a row of requests with several changes.
    private(set) var several = 0

    /// How often a change is held back for a probe before it goes without one, so that nothing waits for ever.
    static let mostRefusals = 3

    /// Whether this failure may be a change's own: 5xx, a time-out (of a server that was reached), or a 4xx that blames none.
    ///
    /// What broke off is never one: a connection that was lost with the request out, and a truncated answer (decision 340).
    static func isPossiblyOwn(_ failure: ExchangeFailure) -> Bool { !failure.isBrokenOff && mayNeedLess(failure) }

    /// Whether fewer changes in the request may help: what may be a change's own, and what broke off, since a shorter answer
    /// may come whole.
    static func mayNeedLess(_ failure: ExchangeFailure) -> Bool {
        switch failure.kind {
        case .unknown: true
        case .temporary, .temporaryLonger: failure.status == 408 || (500...599).contains(failure.status ?? 0)
        case .network: failure.reachedServer && failure.status == nil
        case .authentication, .conflict, .tooLarge, .permanent, .history: false
        }
    }

    /// A request failed that carried this change alone.
    mutating func failedAlone(_ claimed: [QueuedChange], isPossiblyOwn: Bool, suspectAfter: Int) {
        several = 0
        let ids = claimed.map(\.change.id)
        if members.map(\.id) != ids {
            forget()
            members = claimed.map { Member(id: $0.change.id, attempts: $0.attempts) }
        }
        guard isPossiblyOwn else {
            // What says nothing about the change breaks the row.
            if !isConfirmed { failures = 0 }
            return
        }
        failures += 1
        if isConfirmed || failures >= suspectAfter { wantsProbe = true }
        refusals = 0
    }

    /// A change's attempts as they are now: a probe may have come back since it was claimed.
    func attempts(of queued: QueuedChange) -> Int {
        let member = members.first { $0.id == queued.change.id }
        return max(queued.attempts, member?.attempts ?? 0)
    }

    /// A request failed that carried several.
    mutating func failedTogether(mayNeedLess: Bool) {
        forget()
        several = mayNeedLess ? several + 1 : 0
    }

    /// The claim was answered, so nothing is wrong with sending it.
    mutating func answered() { self = Suspicion() }

    /// Whether to hold the suspect back once more.
    mutating func holdsBack() -> Bool {
        guard wantsProbe, refusals < Self.mostRefusals else { return false }
        refusals += 1
        return true
    }

    /// The probe came back.
    /// - Returns: the members with their attempts counted, if the failures were their own.
    mutating func probed(succeeded: Bool) -> [Member] {
        guard wantsProbe else { return [] }
        guard succeeded else {
            forget()
            return []
        }
        for index in members.indices { members[index].attempts = members[index].attempts.saturatingAdding(failures) }
        failures = 0
        wantsProbe = false
        isConfirmed = true
        return members
    }

    private mutating func forget() {
        let several = several
        self = Suspicion()
        self.several = several
    }
}

extension Int {
    /// The sum, or the greatest number there is.
    func saturatingAdding(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
