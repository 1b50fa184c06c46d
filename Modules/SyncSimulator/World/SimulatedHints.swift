import SyncCore
import SyncTesting

/// A device's stream of hints, in the seeds that have one: opened and refused, broken off, late by a moment or never there, and now
/// and then wrong.
final class SimulatedHints: HintSource, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let script = ScriptedHints()
    private let network: DeviceNetwork
    private var chance: SeededGenerator

    /// A quarter of the seeds.
    static func are(in seed: UInt64) -> Bool {
        var chance = SeededGenerator(seed: seed, .hints)
        return chance.chance(0.25)
    }

    init(network: DeviceNetwork, seed: UInt64) {
        self.network = network
        chance = SeededGenerator(seed: seed, .hints)
    }

    func listen(
        after version: Int64?, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure) {
        guard !network.isOffline else { throw .unreachable }
        if !network.isHealed, chance.chance(0.2) {
            throw .status(503, code: nil, retryAfter: chance.pick([nil, 5, 40]))
        }
        try await script.listen(after: version, heard)
    }

    /// The server has something new.
    /// - Returns: whether somebody may hear of it.
    func say(_ version: Int64) -> Bool {
        guard !network.isOffline, script.listenerCount > 0 else { return false }
        let fate = network.isHealed ? 1 : chance.unit()
        if fate < 0.1 { script.end() }
        guard fate >= 0.2 else { return false }
        // Of another history, or of none.
        let told: Int64? = fate < 0.25 ? version + 100 : fate < 0.35 ? nil : version
        script.say(Hint(currentSyncVersion: told))
        return true
    }

    /// The link is gone, and every stream with it.
    func end() { script.end() }
}

extension SimulatedDevice {
    /// The link is gone, and what listens on it hears no more.
    func endHints() {
        process?.hints?.end()
        second?.process.hints?.end()
    }
}

extension World {
    /// The server tells everybody who listens that an account has something new, the writer, too.
    func hint(at version: Int64, of account: String) {
        for device in devices where device.account == account && !device.isDead {
            for hints in [device.process?.hints, device.second?.process.hints] {
                if hints?.say(version) ?? false { record.cover(.hinted) }
            }
        }
    }
}
