internal import SyncCore

/// What the store holds in memory of an account, as of the last commit.
struct AccountContext: Sendable {
    let row: Int64
    let name: String
    let dataset: String
    /// The highest version handed out.
    var head: Int64
    /// From here on tombstones are complete.
    var oldest: Int64
    /// The highest stamp accepted.
    var stamp: Stamp
    var devices: [String: DeviceContext] = [:]
}

/// What the store holds in memory of a device.
struct DeviceContext: Sendable {
    let row: Int64
    var settled: Int64
    /// The highest sequence with an outcome.
    var top: Int64
    /// Whether it has keys of REST requests, too.
    var usesREST: Bool
}
