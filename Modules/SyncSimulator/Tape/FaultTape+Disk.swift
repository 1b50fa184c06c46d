import SyncTesting

extension FaultTape {
    /// Whether a device's disk ever fails: how often it is asked, and by which connection, is then part of a seed's course.
    var hasFailingDisks: Bool {
        entries.contains {
            switch $0.fault {
            case .device(_, .failingOpening), .device(_, .failingDisk): true
            default: false
            }
        }
    }

    /// What the devices' disks do to files that are being opened, made or brought up to another version of the app, and kills from the
    /// very first statement on: a tape of its own, so that it moves nothing on the others.
    static func diskFaults(_ seed: UInt64, _ devices: Int) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .failingDisks)
        guard chance.chance(0.5) else { return [] }
        var faults: [Fault] = []
        for device in 0..<devices {
            func add(_ fault: DeviceFault) { faults.append(.device(device, fault)) }
            if chance.chance(0.25) { add(.crashAtStatement(1 + chance.below(160))) }
            if chance.chance(0.2) { add(.failingDisk(from: 1 + chance.below(300), count: 1 + chance.below(6))) }
            if chance.chance(0.35) {
                let failure = chance.pick(DiskFailure.allCases)
                let after = chance.below(failure == .unreadable ? 80 : 14)
                add(.failingOpening(number: chance.chance(0.3) ? nil : 1 + chance.below(5), failure, after: after))
            }
        }
        return faults
    }
}
