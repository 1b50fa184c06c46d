import SyncTesting

/// The random numbers of a seed, each part's from a stream of its own, so that what one draws moves nothing of another.
///
/// Two parts with one stream draw the same first number, and what depends on it never meets otherwise: the compiler takes a
/// number here once, and `.ci/check-ambient` finds one that stands anywhere else. A device's own numbers begin elsewhere
/// (``SeededGenerator/mixed(_:_:)``).
enum RandomStream: UInt64, CaseIterable {
    case workload = 1
    case faults = 2
    case restarts = 3
    case serverFaults = 4
    case powerLosses = 5
    /// What comes to a disk before the power goes.
    case disks = 6
    case accounts = 7
    case scopes = 8
    case requestLimits = 11
    /// Which app the devices have.
    case app = 12
    /// How a seed ends its faults.
    case healing = 13
    case storms = 14
    /// Requests that arrive late, and answers of another data set.
    case lateArrivals = 15
    /// Whether the server makes its own ids, and who knows.
    case naming = 16
    /// Other processes of an app with the same files.
    case secondProcesses = 17
    /// How an app asks for a sync.
    case wishes = 18
    /// Whether a server tells of what is new, and what becomes of that.
    case hints = 19
    /// Files that are damaged.
    case damage = 20
    /// What users hold back.
    case drafts = 21
    /// What users want of the network, and how devices are connected.
    case conditions = 22
    /// What apps wait for.
    case waits = 23
    /// What a seed with a bias has more of at times (``TapeBias``).
    case histories = 24
    case moreAccounts = 25
    case moreProcesses = 26
    /// Which device is copied, and when.
    case clones = 31
    /// Disks that fail below SQLite.
    case failingDisks = 32
}

extension SeededGenerator {
    init(seed: UInt64, _ stream: RandomStream) { self.init(seed: seed, stream: stream.rawValue) }
}
