import Storage
import SyncCore

/// What one cycle, or several, did: figures for the user and for the log, no contents.
public struct CycleReport: Sendable, Hashable {
    /// Changes that went out (each request counts its own).
    public var sent = 0
    /// Verdicts `applied`, duplicates of them included.
    public var acknowledged = 0
    /// Verdicts `merged`.
    public var merged = 0
    /// Verdicts `conflict`.
    public var conflicts = 0
    /// Verdicts `rejected`.
    public var refused = 0
    /// Verdicts `blocked` and `retry`: not decided yet, for another change's sake or the server's.
    public var postponed = 0
    /// Records applied from pages, tombstones included.
    public var received = 0
    /// Records of pages that were set down to wait, with their reason.
    public var held = 0
    /// Requests that were made, whatever became of them.
    public var requests = 0
    /// Bytes on the wire of requests that were answered.
    public var bytesSent = 0
    /// Bytes on the wire of answers.
    public var bytesReceived = 0
    /// Rows that a full pass removed.
    public var removed = 0
    /// Whether everything up to the server's present version came, whatever became of the push.
    public var isPulled = false
    /// How it ended.
    public var end = CycleEnd.complete
    /// Of several: where the last one was stopped, why the one before it did not come to its end; else `nil`.
    public private(set) var endBefore: CycleEnd?
    /// How the queue stood when the lease was given back; `nil` where that must be asked.
    var closing: CycleClosing?

    public init() {}

    /// Adds another cycle's figures; its end is the end.
    public mutating func add(_ other: CycleReport) {
        sent += other.sent
        acknowledged += other.acknowledged
        merged += other.merged
        conflicts += other.conflicts
        refused += other.refused
        postponed += other.postponed
        received += other.received
        held += other.held
        requests += other.requests
        bytesSent += other.bytesSent
        bytesReceived += other.bytesReceived
        removed += other.removed
        isPulled = other.isPulled
        if other.end != .cancelled {
            endBefore = other.endBefore
        } else if end != .cancelled {
            // Who was stopped within a try wants to know what became of the last one that came to an end of its own.
            endBefore = end == .complete ? nil : end
        }
        end = other.end
        closing = other.closing
    }

    /// Whether the one request that was made found nothing to do, either way.
    var isIdle: Bool { requests == 1 && sent + refused + received + held + removed == 0 }

    mutating func count(_ results: [ChangeResult]) {
        for result in results {
            switch result.verdict {
            case .applied: acknowledged += 1
            case .merged: merged += 1
            case .conflict: conflicts += 1
            case .rejected: refused += 1
            case .blocked, .retry: postponed += 1
            }
        }
    }
}
