import SyncTesting

extension FaultTape {
    /// When one of a seed's devices is copied, and what goes wrong with the copy, which is the device behind the last of the
    /// others: a tape of its own, so that it moves nothing on the others.
    static func cloneFaults(_ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .clones)
        guard chance.chance(0.12) else { return [] }
        let rest = Int64(chance.chance(0.5) ? 0 : chance.below(40_000))
        let clone = TimedFault.clonedDevice(
            device: chance.below(devices), rests: rest, keepsNote: chance.chance(0.5))
        // Not in the last part: both are to live for a while.
        var faults: [Fault] = [.timed(atMilliseconds: Int64(chance.below(Int(duration) * 2 / 3)), clone)]
        let rate = [0, 0.1, 0.25][chance.below(3)]
        for number in 1..<80 where chance.chance(rate) {
            faults.append(.request(device: devices, number: number, cloneRequestFault(&chance)))
        }
        if chance.chance(0.3) { faults.append(.device(devices, .crashAtStatement(1 + chance.below(600)))) }
        return faults
    }

    /// What makes the two hear of their common changes in another order, or twice.
    private static func cloneRequestFault(_ chance: inout SeededGenerator) -> RequestFault {
        switch chance.below(5) {
        case 0: .latency(there: Int64(chance.below(3_000)), back: Int64(chance.below(3_000)))
        case 1: .lostRequest
        case 2: .lostAnswer
        case 3: .replayedLater(Int64(chance.below(60_000)))
        default: .missingVerdicts(chance.next())
        }
    }
}
