internal import SyncCore

/// The body of `POST /api/sync`, read.
struct SyncRequest: Sendable {
    var cycleID = ""
    var deviceID = ""
    var dataset: String?
    var epoch: String?
    var lastSyncVersion: Int64?
    /// In the order of their names.
    var scopes: [Scope]?
    var settled: Int64 = 0
    var isFullPass = false
    var limit: Int?
    var isStrict = false
    var wantsChecksum = false
    var dirty: [DirtyRecord] = []

    /// What the device has of every scope that it asks for.
    var checkpoint: Int64 { scopes?.map(\.checkpoint).min() ?? lastSyncVersion ?? 0 }

    /// A root wanted, with its own checkpoint.
    struct Scope: Sendable, Hashable {
        var name: String
        var checkpoint: Int64
    }
}
