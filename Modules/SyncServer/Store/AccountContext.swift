internal import SyncCore

/// What the store holds in memory of an account, as of the last commit; dropped when a transaction fails.
struct AccountContext {
    let row: Int64
    let name: String
    let dataset: String
    /// The highest version handed out.
    var head: Int64
    /// From here on tombstones are complete.
    var oldest: Int64
    /// The highest stamp accepted.
    var stamp: Stamp
    let devices = DeviceCache()
}

/// The devices of an account that are awake. A class, so that a request changes one without a copy of all.
///
/// Confined, like everything in `Store`.
final class DeviceCache {
    private var known: [String: DeviceContext] = [:]
    /// Asked for several times for each change of a request.
    private var last: (name: String, context: DeviceContext)?

    subscript(name: String) -> DeviceContext? {
        get {
            if let last, last.name == name { return last.context }
            guard let found = known[name] else { return nil }
            last = (name, found)
            return found
        }
        set {
            last = nil
            // Whoever invents names does not fill the memory.
            if known.count >= 16_384, known[name] == nil { known = [:] }
            known[name] = newValue
        }
    }
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
