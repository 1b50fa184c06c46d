/// What an app does with changes by hand: look, cancel, retry, discard.
///
/// Asked for by UploadQueue, given by Storage; one call is one transaction.
public protocol ChangeRepair: Sendable {
    /// Everything queued, in flight or blocked, in the queue's order.
    func queued() async throws(StoreFailure) -> [QueuedChange]
    /// Everything set aside, oldest first.
    func failures() async throws(StoreFailure) -> [FailedChange]
    /// The changes that would go with this one: what is under its record, where it is that one's create, and the members of its
    /// unit. What merely refers to the record is none of it; where the implementer has rows, nor is what has moved away since.
    func dependants(of changeID: String) async throws(StoreFailure) -> [String]
    /// The same of several, in their order, from one look at the queue; by default a look each.
    func dependants(of changeIDs: [String]) async throws(StoreFailure) -> [[String]]
    /// Puts a successor of a failed change in its place (or the change itself, where it is uncertain), and frees what it blocked.
    /// - Returns: the key of what is in the queue now.
    func retry(_ changeID: String) async throws(StoreFailure) -> String
    /// Puts several failed changes back, each as ``retry(_:)`` would, one after another in the order given. What cannot be
    /// retried is told, and takes nothing of the others with it.
    ///
    /// For some hundred at once, in one transaction: what follows from records is made anew once for all of them. Only where
    /// that cannot be committed for what one of them would do is each done by itself. By default each is.
    /// - Returns: what came of each, in the order given.
    /// - Throws: ``StoreFailure`` that is no single change's (the disk is full); then nothing of the transaction was done.
    func retry(_ changeIDs: [String]) async throws(StoreFailure) -> [RetryOutcome]
    /// Gives a failed change up, with what needs it; the record goes back to base and what remains.
    /// - Returns: the keys of all that was discarded.
    func discard(_ changeID: String) async throws(StoreFailure) -> [String]
    /// Takes a change back: never-sent ones at once with what needs them, uncertain ones by an inverse.
    func cancel(_ changeID: String) async throws(StoreFailure) -> CancelOutcome
}

extension ChangeRepair {
    public func dependants(of changeIDs: [String]) async throws(StoreFailure) -> [[String]] {
        var dependants: [[String]] = []
        for id in changeIDs { dependants.append(try await self.dependants(of: id)) }
        return dependants
    }

    public func retry(_ changeIDs: [String]) async throws(StoreFailure) -> [RetryOutcome] {
        var outcomes: [RetryOutcome] = []
        for id in changeIDs {
            do throws(StoreFailure) {
                outcomes.append(.retried(try await retry(id)))
            } catch {
                outcomes.append(try RetryOutcome(error))
            }
        }
        return outcomes
    }
}

/// A change that was set aside, with its reason and payload.
public struct FailedChange: Sendable, Hashable {
    public var queued: QueuedChange
    public var reason: SetAsideReason
    /// When it was set aside, milliseconds since 1970.
    public var failedAtMilliseconds: Int64
    /// Whether it never got a verdict: trying again keeps its key.
    public var isUncertain: Bool

    public init(queued: QueuedChange, reason: SetAsideReason, failedAtMilliseconds: Int64, isUncertain: Bool) {
        self.queued = queued
        self.reason = reason
        self.failedAtMilliseconds = failedAtMilliseconds
        self.isUncertain = isUncertain
    }
}

/// What retrying one of several changes came to.
public enum RetryOutcome: Sendable, Hashable {
    /// It is in the queue, under this key.
    case retried(String)
    /// It is not set aside, or not any more: it was discarded, or is in the queue already, as what went with another of its unit.
    case notFailed
    /// It stays set aside as it was: this is in the way.
    case failed(StoreFailure)

    /// What a failure to retry one change means for it.
    /// - Throws: the failure, where it is not the change's: the next one would meet it as well.
    public init(_ failure: StoreFailure) throws(StoreFailure) {
        switch failure.kind {
        case .notFound: self = .notFailed
        // With a code of SQLite's it is a constraint of the app's.
        case .invalid where failure.code == nil: self = .notFailed
        case .invalid, .unexpected: self = .failed(failure)
        case .busy, .full, .io, .corrupt, .readOnly, .refused: throw failure
        }
    }
}

/// What cancelling came to.
public enum CancelOutcome: Sendable, Hashable {
    /// Taken back before it was ever sent, with these that needed it.
    case cancelled([String])
    /// It was sent and has no verdict: this inverse change goes after it.
    case inverse(String)
    /// It is on its way now: its fate is the server's.
    case tooLate
}
