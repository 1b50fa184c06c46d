public import SyncCore

/// How sync stands: a snapshot, published after each change, the newest only.
public struct SyncStatus: Sendable, Hashable {
    public enum Activity: Sendable, Hashable {
        case idle
        case syncing
        case paused
    }

    public var activity: Activity
    public var queue: QueueSummary
    /// How the last cycle ended; `nil` before the first.
    public var lastEnd: CycleEnd?
    /// When everything was last known to be in step, milliseconds since 1970; never goes back.
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
    case cycleEnded(CycleReport)
    case fullPassBegan
    case fullPassEnded(FullPassEnd)
    /// The server and this device hold different records at the same checkpoint; a full pass follows.
    case diverged
    /// The server was reached and keeps failing: it is left alone for so long, with the cause.
    case breakerOpened(milliseconds: Int64, cause: String)
    /// A probe worked: the server is asked as usual.
    case breakerClosed
    /// The stream of hints is there, or is not any more, with the cause.
    case hintsOpened
    case hintsLost(String)
    /// A handler of the app threw; the others went on.
    case handlerFailed(entity: String, message: String)
}
