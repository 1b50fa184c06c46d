import Orchestrator
import SyncTesting

extension FaultTape {
    /// What a server in trouble says to everybody.
    public enum Storm: Sendable, Hashable {
        case status(Int, retryAfter: Double?)
        /// Nothing comes back within a minute, whether the work is done or not.
        case timeOut(isDone: Bool)
    }
}

/// When the server of a seed fails for minutes, whatever it is asked, and how patient its devices' breakers are: a tape of its own,
/// so that it moves nothing on the others.
struct StormTape {
    /// How devices leave a server alone that fails.
    struct Patience {
        var threshold = 5
        /// In milliseconds; the defaults are the engine's own.
        var coolDown: Int64 = 30 * 60_000
        var longest: Int64 = 4 * 3_600_000

        var breaker: CircuitBreaker {
            CircuitBreaker(threshold: threshold, coolDownMilliseconds: coolDown, longestMilliseconds: longest)
        }
    }

    private(set) var patience = Patience()
    private(set) var faults: [FaultTape.Fault] = []

    init(seed: UInt64, duration: Int64) {
        var chance = SeededGenerator(seed: seed, .storms)
        guard chance.chance(0.25) else { return }
        let isShort = chance.chance(0.5)
        // Several openings within the minutes in which users work; or the engine's own, and now and then a storm beyond its first.
        if isShort { patience = Patience(threshold: 3, coolDown: 45_000, longest: 180_000) }
        for _ in 0..<(isShort ? 1 + chance.below(2) : 1) {
            let isLong = !isShort && chance.chance(0.4)
            let minutes = isLong ? 35 + chance.below(15) : 2 + chance.below(7)
            let storm = Self.storm(&chance)
            faults.append(
                .timed(
                    atMilliseconds: Int64(chance.below(Int(duration))),
                    .storm(storm, milliseconds: Int64(minutes) * 60_000)))
        }
    }

    private static func storm(_ chance: inout SeededGenerator) -> FaultTape.Storm {
        guard chance.chance(0.7) else { return .timeOut(isDone: chance.chance(0.5)) }
        let status = chance.pick([503, 503, 503, 502, 504, 500])
        return .status(status, retryAfter: chance.chance(0.25) ? Double(5 + chance.below(90)) : nil)
    }
}
