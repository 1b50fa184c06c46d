import SyncTesting

/// How many changes one request may hold in a seed: mostly more than ever wait, so that a device sends all at once; in a third of
/// the seeds so few that requests follow one another (Decision 161), and now and then fewer than a device sends.
struct RequestLimits: Sendable, Hashable {
    /// What the devices put into one.
    let ofDevices: Int
    /// What the server takes.
    let ofServer: Int

    /// Whether a queue takes several requests.
    var isSmall: Bool { ofDevices < Self.many }

    private static let many = 500

    init(seed: UInt64) {
        var chance = SeededGenerator(seed: seed, .requestLimits)
        ofDevices = chance.below(3) == 0 ? 2 + chance.below(7) : Self.many
        ofServer = chance.chance(0.1) ? 4 + chance.below(9) : 1_000
    }
}
