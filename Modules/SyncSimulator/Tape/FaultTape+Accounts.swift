import SyncTesting

extension FaultTape {
    /// When the users of a seed's devices sign out, and others sign in: a tape of its own, so that it moves nothing on the others.
    static func accountFaults(_ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .accounts)
        guard chance.chance(0.25) else { return [] }
        var faults: [Fault] = []
        for device in 0..<devices where chance.chance(0.6) {
            let stay = Int64(2_000 + chance.below(90_000))
            let signOut = TimedFault.signOut(device: device, flushes: chance.chance(0.5), milliseconds: stay)
            faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), signOut))
        }
        return faults
    }
}
