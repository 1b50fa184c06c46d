import SyncTesting

extension FaultTape {
    /// What happens at times beside the seed's own faults, where it has more of something: a tape of its own, so that it moves nothing on
    /// the others.
    static func more(of bias: TapeBias, _ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        guard let stream = bias.stream else { return [] }
        var chance = SeededGenerator(seed: seed, stream)
        var faults: [Fault] = []
        func add(_ fault: TimedFault) {
            faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), fault))
        }
        switch bias {
        case .asides, .churn: break
        case .histories:
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
                if chance.chance(0.3) {
                    add(.offline(device: device, milliseconds: Int64(10_000 + chance.below(90_000))))
                }
                if chance.chance(0.15) { add(.scopes(device: device, pick: chance.chance(0.3) ? nil : chance.next())) }
            }
        case .accounts:
            for device in 0..<devices {
                for _ in 0..<chance.below(3) {
                    let stay = Int64(1_000 + chance.below(60_000))
                    add(.signOut(device: device, flushes: chance.chance(0.5), milliseconds: stay))
                }
                if chance.chance(0.5) { add(.otherAccount(device: device)) }
                if chance.chance(0.5) {
                    add(.expiredToken(device: device, milliseconds: Int64(1_000 + chance.below(60_000))))
                }
                if chance.chance(0.3) { add(.crash(device: device)) }
                if chance.chance(0.2) {
                    add(.deviceBackup(device: device))
                    add(.restoredDevice(device: device))
                }
                if chance.chance(0.3) {
                    faults.append(.olderApp(device: device))
                    add(.update(device: device))
                }
                if chance.chance(0.2) { add(.scopes(device: device, pick: chance.chance(0.3) ? nil : chance.next())) }
            }
        case .processes:
            for device in 0..<devices {
                for _ in 0..<chance.below(5) {
                    let standing =
                        chance.chance(0.4)
                        ? Standing(request: 1 + chance.below(3), milliseconds: Int64(chance.below(60_000))) : nil
                    let span = Int64(500 + chance.below(60_000)) + (standing?.milliseconds ?? 0)
                    add(
                        .secondProcess(
                            device: device, milliseconds: span, stands: standing, isKilled: chance.chance(0.5)))
                }
                for _ in 0..<chance.below(3) { add(.crash(device: device)) }
                for _ in 0..<chance.below(4) {
                    faults.append(.device(device, .crashAtStatement(50 + chance.below(4_000))))
                }
                if chance.chance(0.4) {
                    let from = 50 + chance.below(3_000)
                    faults.append(.device(device, .failingDisk(from: from, count: 1 + chance.below(20))))
                }
                if chance.chance(0.3) {
                    add(.lockedFile(device: device, milliseconds: Int64(500 + chance.below(5_000))))
                }
                if chance.chance(0.2) { add(.powerLoss(device: device)) }
            }
        }
        return faults
    }
}
