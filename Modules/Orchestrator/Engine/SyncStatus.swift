public import SyncCore

/// How sync stands: a snapshot, published after each change, the newest only.
public struct SyncStatus: Sendable, Hashable {
    /// What the engine is at.
    public enum Activity: Sendable, Hashable {
        /// No cycle is at work, or none that has asked the server yet.
        case idle
        /// A cycle is at work: its first request has left.
        case syncing
        /// None is, and none starts by itself before ``SyncEngine/resume()``.
        case paused
    }

    /// What the engine is at.
    public var activity: Activity
    /// What was in the queue when the last cycle ended, or could not begin; empty before the first. By the moment it is told by
    /// ``SyncEngine/uploads``.
    public var queue: QueueSummary
    /// How the last cycle ended; `nil` before the first.
    public var lastEnd: CycleEnd?
    /// When everything was last known to be in step, milliseconds since 1970; never goes back. A complete cycle after which
    /// changes wait, or are set aside, or records are held, does not count.
    public var lastSyncedMilliseconds: Int64?

    public init(
        activity: Activity = .idle, queue: QueueSummary = QueueSummary(), lastEnd: CycleEnd? = nil,
        lastSyncedMilliseconds: Int64? = nil
    ) {
        self.activity = activity
        self.queue = queue
        self.lastEnd = lastEnd
        self.lastSyncedMilliseconds = lastSyncedMilliseconds
    }
}

/// What happened, for the app's own log or screen; durable rows stand behind each of them in the store.
public enum SyncEvent: Sendable, Hashable {
    /// A cycle has ended, or could not begin; it comes after the cycle's other events, and ``SyncStatus/lastEnd`` says so already.
    case cycleEnded(CycleReport)
    /// Everything is asked for from the beginning: the server's history is another one, or tombstones may be missing.
    case fullPassBegan
    /// The full pass is through, or waits for the app's word.
    case fullPassEnded(FullPassEnd)
    /// The server and this device hold different records at the same checkpoint; a full pass follows.
    case diverged
    /// The server was reached and keeps failing: it is left alone for so long, with the cause.
    case breakerOpened(milliseconds: Int64, cause: String)
    /// A probe worked: the server is asked as usual.
    case breakerClosed
    /// The stream of hints is there.
    case hintsOpened
    /// The stream of hints is not there any more, with the cause.
    case hintsLost(String)
    /// A handler of the app threw; the others went on.
    case handlerFailed(entity: String, message: String)
}
