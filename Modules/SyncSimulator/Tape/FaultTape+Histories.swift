import SyncTesting

extension FaultTape {
    /// What makes one history of several, in seeds with that bias: a tape of its own, so that it moves nothing on the others.
    static func histories(_ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .histories)
        var faults: [Fault] = []
        func add(_ fault: TimedFault) {
            faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), fault))
        }
        for _ in 0..<chance.below(3) { add(.backup) }
        for _ in 0..<(1 + chance.below(3)) { add(.restoredServer) }
        if chance.chance(0.5) { add(.forgottenTombstones) }
        for device in 0..<devices {
            if chance.chance(0.4) {
                add(.deviceBackup(device: device))
                for _ in 0..<(1 + chance.below(2)) { add(.restoredDevice(device: device)) }
            }
            if chance.chance(0.4) { add(.powerLoss(device: device)) }
            if chance.chance(0.3) { add(.crash(device: device)) }
            if chance.chance(0.3) { add(.offline(device: device, milliseconds: Int64(10_000 + chance.below(90_000)))) }
            if chance.chance(0.15) { add(.scopes(device: device, pick: chance.chance(0.3) ? nil : chance.next())) }
        }
        return faults
    }
}
