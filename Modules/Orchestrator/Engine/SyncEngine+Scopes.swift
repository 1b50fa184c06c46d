import Storage
public import SyncCore

/// A part of the account, chosen root by root (PROTOCOL.md, `scopes`).
extension SyncEngine {
    /// The roots that this device holds, with everything under them; `nil` for all that the account may see.
    public func scopes() async throws(StoreFailure) -> Set<RecordKey>? { try await store.scopes() }

    /// Holds these roots from now on; everything with `nil`.
    ///
    /// A new root is caught up from 0 with a checkpoint of its own, the others are not asked again; but where one is dropped
    /// before a pull is through, that pull begins again (Decision 191). Rows of a root that
    /// is dropped leave this device and nowhere else; what is unsent of it stays until it is decided. A page that is on
    /// its way for other roots is dropped and asked for again.
    public func setScopes(_ roots: Set<RecordKey>?) async throws(StoreFailure) {
        try await store.setScopes(roots)
        trigger(.hint)
    }
}
