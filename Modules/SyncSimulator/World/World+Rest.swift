import Orchestrator
import Storage
import SyncCore
import SyncTesting

/// I8: what an app is told of a device that has come to rest is what its tables say.
extension World {
    /// How a device stands by its engine's word.
    private struct Told: Sendable {
        var status: SyncStatus?
        var summary: QueueSummary
        var counts: StateCounts
        var fates: [RecordKey: RecordFate] = [:]
    }

    func checkRest(_ index: Int) {
        guard let facts = devices[index].facts() else { return }
        let records = Set(facts.queue.map(\.here)).sorted()
        let told = settle(index) { process -> Told in
            var statuses = await process.engine.statuses().makeAsyncIterator()
            var told = Told(
                status: await statuses.next(), summary: try await process.store.summary(),
                counts: try await process.store.counts(for: nil))
            for record in records { told.fates[record] = try await process.store.fate(of: record) }
            return told
        }
        if options.waitsForSettled {
            checkSettled(index)
            checkNobodyWaits(index)
        }
        guard let told, let status = told.status else { return }
        func find(_ message: String) { record.violate("I8", "device \(index) is at rest: \(message)") }
        let there = told.summary
        if there.hasWork { find("\(there.pending) changes wait, and \(there.inFlight) are on their way") }
        if told.counts.failed != facts.failed.count
            || told.counts.failed + told.counts.waiting + told.counts.uploading != facts.queue.count
        {
            find("it counts \(told.counts) of \(facts.queue.count) changes, \(facts.failed.count) of them set aside")
        }
        // Who waits for a record to be settled is told.
        for (key, fate) in told.fates where fate == .waiting {  // any order
            find("\(key) is waited for, and nothing of it goes")
        }
        // Of what goes beside the cycles a status tells when the next of them ends, and so it does of what another process did (seed
        // 430311).
        guard !options.sendsSingly, devices[index].seconds == 0 else { return }
        if status.activity != .idle { find("it shows \(status.activity)") }
        let shown = status.queue
        if [shown.pending, shown.inFlight, shown.blocked, shown.failed]
            != [there.pending, there.inFlight, there.blocked, there.failed]
        {
            find("it shows \(shown) of \(there)")
        }
        if facts.queue.isEmpty, status.lastEnd == .complete, status.lastSyncedMilliseconds == nil {
            find("all is in step, and no time is shown for that")
        }
    }
}
