/// Where pages go: a slice with its checkpoint in one transaction, or in parts of which each has its own.
///
/// Asked for by the Orchestrator, given by Storage. An implementer guarantees I4, I5 and I6: a slice and the checkpoint
/// at its last version stand together or not at all, the checkpoint is never ahead, and an unsent local value is what
/// the device reads (the server's becomes the base, unsent deltas are replayed on top).
public protocol RecordStore: Sendable {
    /// What the next request must say of this device.
    func position() async throws(StoreFailure) -> SyncPosition
    /// Applies the records in version order and sets the checkpoint; a record that cannot be applied is held, with its reason.
    /// What was applied before a failure may stand, with the checkpoint at its last version.
    func apply(_ slice: PageSlice) async throws(StoreFailure) -> SliceReport
    /// Notes the server's data set and epoch on the first answer.
    func bind(dataset: String?, epoch: String) async throws(StoreFailure)
    /// Notes how far the server's clock is ahead of this device's; stamps of what was never sent are shifted by what
    /// differs from the offset they were made with, order kept, where that is more than a second.
    func setClockOffset(milliseconds: Int64) async throws(StoreFailure)
    /// Begins a full pass: the checkpoint is 0 again, unsent changes stay. One that runs, or waits for the app's word, begins anew; one that
    /// was broken off goes on by itself, from its checkpoint.
    /// - Parameter epoch: that of the history that replaced the one here, also where it has the same name (PROTOCOL.md, *Another
    ///   history*: a checkpoint above the server's); `nil` where history is the same.
    func beginFullPass(epoch: String?) async throws(StoreFailure)
    /// Ends a full pass: rows that it did not bring and that have no unsent change go, journalled first.
    /// - Parameter confirmed: the app's word, for an empty pass or the loss of more than 20 % of the rows in step.
    /// - Returns: what went, or that it waits for the app's word.
    func endFullPass(confirmed: Bool) async throws(StoreFailure) -> FullPassEnd
    /// A page is about to be asked for. Noted durably, so that a process that dies over a page finds it out: after three
    /// deaths at one place the page is smaller.
    /// - Returns: the most records to ask for, at most `limit`. By default `limit`.
    func beginPage(limit: Int) async throws(StoreFailure) -> Int
    /// What became of that page is known, whatever it is.
    func endPage() async throws(StoreFailure)
    /// Speaks after a slice, or a verdict, and what is derived from it, is complete.
    func applied() -> AsyncStream<Void>
}

extension RecordStore {
    public func beginPage(limit: Int) async throws(StoreFailure) -> Int { limit }
    public func endPage() async throws(StoreFailure) {}
}

/// Where a device stands.
public struct SyncPosition: Sendable, Hashable {
    public var deviceID: String
    public var dataset: String?
    public var epoch: String?
    public var checkpoint: Int64
    /// The roots asked for (`board:8f2e…`), each with its own checkpoint; `nil` where all that the account may see is.
    public var scopes: [String: Int64]?
    /// Roots are asked for, and since the last answer that left nothing to come, some of a pull was applied or a root dropped;
    /// or something is to be looked for once nothing more is to come.
    public var isOpen: Bool
    /// A full pass has begun and not ended.
    public var isInFullPass: Bool
    /// A full pass ended in a loss that waits for the app's word.
    public var awaitsConfirmation: Bool
    /// When the present or last full pass began, by the server's clock, milliseconds since 1970; `nil` where that is not known.
    public var passBeganMilliseconds: Int64?
    /// Records that wait for something (a parent, a newer program), with their reason.
    public var held: Int
    /// The server's clock minus this device's, as last measured; `nil` before the first answer.
    public var clockOffsetMilliseconds: Int64?

    public init(
        deviceID: String, dataset: String? = nil, epoch: String? = nil, checkpoint: Int64 = 0,
        isInFullPass: Bool = false, awaitsConfirmation: Bool = false, held: Int = 0,
        clockOffsetMilliseconds: Int64? = nil, scopes: [String: Int64]? = nil, isOpen: Bool = false,
        passBeganMilliseconds: Int64? = nil
    ) {
        self.deviceID = deviceID
        self.dataset = dataset
        self.epoch = epoch
        self.checkpoint = checkpoint
        self.isInFullPass = isInFullPass
        self.awaitsConfirmation = awaitsConfirmation
        self.held = held
        self.clockOffsetMilliseconds = clockOffsetMilliseconds
        self.scopes = scopes
        self.isOpen = isOpen
        self.passBeganMilliseconds = passBeganMilliseconds
    }

    /// Whether of what a full pass under way has brought, something may have died by now, and its tombstone be forgotten: it waits
    /// for the app's word, perhaps for months, or it began so long ago that tombstones of then need not be kept any more.
    ///
    /// PROTOCOL.md has them kept for 90 days at least; a day of these is left for clocks that are off.
    /// - Parameter milliseconds: now, by this device's clock, since 1970.
    public func mayBeOutlived(atMilliseconds milliseconds: Int64) -> Bool {
        guard isInFullPass else { return false }
        if awaitsConfirmation { return true }
        guard let began = passBeganMilliseconds else { return false }
        return milliseconds + (clockOffsetMilliseconds ?? 0) - began >= 89 * 86_400_000
    }

    /// Whether everything that is asked for is here up to this version.
    public func stands(at version: Int64) -> Bool {
        scopes.map { $0.values.allSatisfy { $0 >= version } } ?? (checkpoint >= version)
    }

    /// Everything that is asked for is here up to this version.
    public var lowest: Int64 { scopes.map { $0.values.min() ?? .max } ?? checkpoint }

    /// Everything that is asked for is here up to this version; a checkpoint never falls.
    public mutating func advance(to version: Int64) {
        if scopes != nil {
            scopes = scopes?.mapValues { max($0, version) }
        } else {
            checkpoint = max(checkpoint, version)
        }
    }
}

/// A part of a page: at most 500 records or 1 MiB.
public struct PageSlice: Sendable, Hashable {
    public var records: [ServerRecord]
    /// The checkpoint that the page was asked from; a slice of a page asked from above the present one is dropped.
    public var from: Int64
    /// The checkpoint once these are applied.
    public var checkpoint: Int64
    public var epoch: String
    /// The highest stamp of the answer: the device's clock moves past it.
    public var stamp: Stamp?
    /// The roots that were asked for, with the checkpoints that they were asked from; a slice of a page for others than
    /// the present ones is dropped.
    public var scopes: [String: Int64]?
    /// More of the pull is to come after this slice: of its answer's page, or of a page that the server still has.
    public var hasMore: Bool

    public init(
        records: [ServerRecord], from: Int64, checkpoint: Int64, epoch: String, stamp: Stamp? = nil,
        scopes: [String: Int64]? = nil, hasMore: Bool = false
    ) {
        self.records = records
        self.from = from
        self.checkpoint = checkpoint
        self.epoch = epoch
        self.stamp = stamp
        self.scopes = scopes
        self.hasMore = hasMore
    }
}

/// What applying a slice did.
public struct SliceReport: Sendable, Hashable {
    public var applied: Int
    public var deleted: Int
    public var held: Int
    public var conflicts: Int
    /// The slice was from another epoch, or from a checkpoint above the present one: nothing was done.
    public var wasDropped: Bool
    /// The pull is through, and now there is more to ask for at once: ``RecordStore/position()`` says from where.
    public var asksAgain = false
    /// The records that changed here, in the order applied.
    public var touched: [RecordKey]

    public init(
        applied: Int = 0, deleted: Int = 0, held: Int = 0, conflicts: Int = 0, wasDropped: Bool = false,
        touched: [RecordKey] = []
    ) {
        self.applied = applied
        self.deleted = deleted
        self.held = held
        self.conflicts = conflicts
        self.wasDropped = wasDropped
        self.touched = touched
    }
}

/// How a full pass ended.
public enum FullPassEnd: Sendable, Hashable {
    /// So many rows went.
    case removed(Int)
    /// So many of so many rows in step would go: nothing went, the app must say.
    case awaitsConfirmation(missing: Int, of: Int)
}
