import SyncTesting

extension FaultTape {
    /// Whether some devices hold a part of the roots.
    var choosesRoots: Bool {
        entries.contains { if case .timed(_, .scopes) = $0.fault { true } else { false } }
    }

    /// When a seed's users choose what their devices hold, and move things between roots: a tape of its own, so that it moves
    /// nothing on the others.
    static func scopeFaults(_ seed: UInt64, _ devices: Int, _ duration: Int64, _ movesMuch: Bool) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .scopes)
        guard movesMuch || chance.chance(0.25) else { return [] }
        var faults: [Fault] = []
        func add(_ fault: TimedFault) {
            faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), fault))
        }
        for device in 0..<devices where chance.chance(0.8) {
            // A tenth goes back to everything.
            for _ in 0..<(2 + chance.below(4)) {
                add(.scopes(device: device, pick: chance.chance(0.1) ? nil : chance.next()))
            }
        }
        for device in 0..<devices {
            for _ in 0..<(movesMuch ? 15 + chance.below(20) : 2 + chance.below(4)) {
                add(.move(device: device, record: chance.next() >> 8))
            }
        }
        return faults
    }
}
