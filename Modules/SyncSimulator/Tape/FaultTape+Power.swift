import SyncTesting

extension FaultTape {
    /// When the power of a seed's devices goes: a tape of its own, so that it moves nothing on the others.
    static func powerFaults(_ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .powerLosses)
        guard chance.chance(0.3) else { return [] }
        var faults: [Fault] = []
        for device in 0..<devices where chance.chance(0.5) {
            for _ in 0..<(1 + chance.below(2)) {
                faults.append(
                    .timed(atMilliseconds: Int64(chance.below(Int(duration))), .powerLoss(device: device)))
            }
        }
        return faults
    }
}
