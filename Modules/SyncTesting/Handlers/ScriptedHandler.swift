public import SyncCore
import Foundation

/// A handler that finds what a test puts into it, and keeps what it was told.
public final class ScriptedHandler: Syncable, @unchecked Sendable {
    // Sendable: everything that changes is used under `lock` alone.

    /// A step of the four.
    public enum Step: Sendable, Hashable, CaseIterable {
        case collectDirty, buildPayload, applyResponse, markSynced
    }

    public let schema: EntitySchema
    private let payload: @Sendable (Change) -> Change
    private let lock = NSLock()
    private var dirty: [RecordKey: FoundChange] = [:]
    private var came: [ServerRecord] = []
    private var decided: [Change] = []
    private var failures: [Step: any Error] = [:]

    /// - Parameter payload: what goes out for a change.
    public init(_ schema: EntitySchema, payload: @escaping @Sendable (Change) -> Change = { $0 }) {
        self.schema = schema
        self.payload = payload
    }

    /// This is found from now on, in place of what was found of its record, until a change of it is decided.
    public func put(_ found: FoundChange) { lock.withLock { dirty[found.record] = found } }

    /// This step throws from now on; with `nil` it does not any more.
    public func fail(_ step: Step, _ failure: (any Error)?) { lock.withLock { failures[step] = failure } }

    /// The records that were applied, in order.
    public var applied: [ServerRecord] { lock.withLock { came } }

    /// The changes that were decided, in order.
    public var synced: [Change] { lock.withLock { decided } }

    public func collectDirty() async throws -> [FoundChange] {
        try attempt(.collectDirty) { dirty.keys.sorted().compactMap { dirty[$0] } }
    }

    public func buildPayload(_ change: Change) throws -> Change {
        try attempt(.buildPayload) {}
        return payload(change)
    }

    public func applyResponse(_ record: ServerRecord) async throws {
        try attempt(.applyResponse) { came.append(record) }
    }

    public func markSynced(_ changes: [Change]) async throws {
        try attempt(.markSynced) {
            decided += changes
            for change in changes { dirty[change.record] = nil }
        }
    }

    private func attempt<T>(_ step: Step, _ body: () -> T) throws -> T {
        try lock.withLock {
            if let failure = failures[step] { throw failure }
            return body()
        }
    }
}
