import SyncCore

/// One place in the in-memory queue.
struct LogEntry: Sendable {
    enum Standing: Sendable {
        /// In the queue, or blocked.
        case queued
        /// Claimed by a sender that is at work.
        case claimed
        case failed(SetAsideReason, at: Int64, staysUncertain: Bool)
    }

    var change: Change
    var standing = Standing.queued
    /// It left this device at least once, and has no verdict.
    var wasSent = false
    var attempts = 0
    var conflicts = 0
    var madeAt: Int64
    /// The records whose creates it needs, its own among them.
    var needs: Set<RecordKey>
    /// A record that the server misses: it waits until that record's own create has left the queue.
    var missing: RecordKey?
    /// The change that was set aside and keeps it waiting.
    var blockedBy: String?
    /// It took another's place, so that its sequence is out of line.
    var isSuccessor = false

    var isFailed: Bool {
        if case .failed = standing { true } else { false }
    }

    /// Decided on the server, or never to be decided under this key.
    var isDecided: Bool {
        if case .failed(_, _, let staysUncertain) = standing { !staysUncertain } else { false }
    }

    var state: QueuedChange.State {
        switch standing {
        case .failed: .failed
        case .claimed: .uploading
        case .queued: blockedBy != nil ? .blocked : wasSent ? .uncertain : .pending
        }
    }

    var queued: QueuedChange {
        QueuedChange(
            change: change, state: state, attempts: attempts, conflicts: conflicts, blockedBy: blockedBy,
            madeAtMilliseconds: madeAt)
    }
}
