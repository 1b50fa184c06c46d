import Foundation
import SyncCore

/// The streams that lead out of the queue.
final class UploadStreams: @unchecked Sendable {
    // Sendable: the stored variable is read and written under `lock` alone; all else is constant and Sendable.

    /// A listener that dawdles loses the oldest; what an event ended has a durable row, too.
    let events = Listeners<UploadEvent>(.bufferingNewest(1_024))
    /// Snapshots: the newest says all.
    let counts = Listeners<UploadCounts>(.bufferingNewest(1), keepsNewest: true)
    let progress = Listeners<UploadProgress>(.bufferingNewest(1), keepsNewest: true)
    private let lock = NSLock()
    private var lastCounts: UploadCounts?

    /// Tells the counts if they are others than before.
    func count(_ counts: UploadCounts) {
        let isNew = lock.withLock {
            defer { lastCounts = counts }
            return lastCounts != counts
        }
        if isNew { self.counts.send(counts) }
    }
}
