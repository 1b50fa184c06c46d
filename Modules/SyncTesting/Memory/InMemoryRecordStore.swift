public import SyncCore

/// A record store in memory: bases, unsent deltas on top, held orphans, and full passes.
public actor InMemoryRecordStore: RecordStore {
    private let schema: Schema
    private let deltas: any DeltaCalculation
    private var present: SyncPosition
    private var bases: [RecordKey: ServerRecord] = [:]
    private var unsent: [RecordKey: [String: FieldDelta]] = [:]
    /// Children that wait for their parent.
    private var orphans: [RecordKey: ServerRecord] = [:]
    /// What the full pass under way has brought.
    private var brought: Set<RecordKey>?
    private let broadcast = Broadcast()
    /// What the disk says, and after how many records of a slice.
    private var failure: (StoreFailure, afterRecords: Int)?

    public init(schema: Schema, deviceID: String = "device", deltas: any DeltaCalculation = LastWriterDeltas()) {
        self.schema = schema
        self.deltas = deltas
        present = SyncPosition(deviceID: deviceID)
    }

    // MARK: The app's side

    /// What the device shows for a record.
    public func row(_ key: RecordKey) -> [String: FieldValue]? {
        let base = bases[key].flatMap { $0.presence == .live ? $0.fields : nil }
        guard let changes = unsent[key] else { return base }
        var fields = bases[key]?.fields ?? [:]
        for name in changes.keys.sorted() {
            guard let delta = changes[name] else { continue }
            fields[name] = deltas.rebase(delta, onto: fields[name] ?? .null)
        }
        return fields
    }

    /// A local write that waits to be sent.
    public func write(_ key: RecordKey, _ values: [String: FieldValue]) {
        let present = row(key) ?? [:]
        for name in values.keys.sorted() {
            let rule = schema[key.entity]?.field(name)?.rule ?? .lastWriter
            let delta = FieldDelta(old: present[name], new: values[name] ?? .null, rule: rule)
            let earlier = unsent[key]?[name]
            unsent[key, default: [:]][name] = earlier.map { deltas.compose($0, delta) } ?? delta
        }
    }

    // MARK: For tests

    /// Slices fail like this from now on, once so many of their records are applied; `nil` ends it.
    public func failSlices(_ failure: StoreFailure?, afterRecords count: Int = 0) {
        self.failure = failure.map { ($0, count) }
    }

    // MARK: The seam

    public func position() async throws(StoreFailure) -> SyncPosition {
        var position = present
        position.held = orphans.count
        return position
    }

    public func bind(dataset: String?, epoch: String) async throws(StoreFailure) {
        present.dataset = dataset ?? present.dataset
        present.epoch = epoch
    }

    public func setClockOffset(milliseconds: Int64) async throws(StoreFailure) {
        present.clockOffsetMilliseconds = milliseconds
    }

    public func apply(_ slice: PageSlice) async throws(StoreFailure) -> SliceReport {
        guard slice.epoch == present.epoch, slice.from <= present.checkpoint else {
            return SliceReport(wasDropped: true)
        }
        var report = SliceReport()
        if let failure {
            // What was applied before it stands, with the checkpoint at its last version.
            for record in slice.records.prefix(failure.afterRecords) {
                take(record, into: &report)
                present.checkpoint = max(present.checkpoint, record.version)
            }
            throw failure.0
        }
        for record in slice.records { take(record, into: &report) }
        present.checkpoint = max(present.checkpoint, slice.checkpoint)
        broadcast.speak()
        return report
    }

    public func beginFullPass(epoch: String?) async throws(StoreFailure) {
        if let epoch { present.epoch = epoch }
        present.checkpoint = 0
        present.isInFullPass = true
        present.awaitsConfirmation = false
        brought = []
    }

    public func endFullPass(confirmed: Bool) async throws(StoreFailure) -> FullPassEnd {
        let inStep = bases.keys.filter { bases[$0]?.presence == .live && unsent[$0] == nil }
        let missing = inStep.filter { brought?.contains($0) != true }
        if !confirmed, !missing.isEmpty, brought?.isEmpty != false || missing.count * 5 > inStep.count {
            present.awaitsConfirmation = true
            return .awaitsConfirmation(missing: missing.count, of: inStep.count)
        }
        for key in missing { bases[key] = nil }
        present.isInFullPass = false
        present.awaitsConfirmation = false
        brought = nil
        broadcast.speak()
        return .removed(missing.count)
    }

    public nonisolated func applied() -> AsyncStream<Void> { broadcast.listen() }

    private func take(_ record: ServerRecord, into report: inout SliceReport) {
        brought?.insert(record.key)
        let isOlder = !present.isInFullPass && record.version < bases[record.key]?.version ?? 0
        guard !isOlder else { return }
        if record.presence == .live, !hasParents(record) {
            orphans[record.key] = record
            report.held += 1
            return
        }
        orphans[record.key] = nil
        report.touched.append(record.key)
        switch record.presence {
        case .live:
            bases[record.key] = record
            report.applied += 1
        case .deleted:
            bases[record.key] = record
            report.deleted += 1
        case .gone:
            bases[record.key] = nil
            unsent[record.key] = nil
            report.deleted += 1
        }
        for orphan in orphans.keys.sorted() {
            guard let waiting = orphans[orphan], hasParents(waiting) else { continue }
            take(waiting, into: &report)
        }
    }

    private func hasParents(_ record: ServerRecord) -> Bool {
        (schema[record.key.entity]?.parents ?? []).allSatisfy { field in
            guard case .string(let id)? = record.fields[field.name], let entity = field.reference?.entity else {
                return true
            }
            return row(RecordKey(entity, id)) != nil
        }
    }
}
