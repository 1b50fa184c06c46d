public import SyncCore

/// What a sync by the user's wish came to.
public struct SyncSummary: Sendable, Hashable {
    /// All cycles together; its end is the last one's.
    public var report: CycleReport
    /// What is in the queue now.
    public var queue: QueueSummary
    /// Records that wait on this device for something that is missing.
    public var held: Int

    public init(report: CycleReport, queue: QueueSummary, held: Int) {
        self.report = report
        self.queue = queue
        self.held = held
    }

    /// Nothing is unsent, set aside or held, and the pull is complete.
    public var isInStep: Bool {
        report.end == .complete && queue.isEmpty && held == 0
    }
}
