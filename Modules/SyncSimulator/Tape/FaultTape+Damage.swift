import SyncTesting

extension FaultTape {
    /// What becomes of a file that nobody has open.
    public enum Damage: Sendable, Hashable, CaseIterable {
        /// The first hundred bytes are others: all the rest can be read.
        case header
        /// Some pages are others.
        case pages
        /// The end is missing.
        case cut
        /// All of it is something else.
        case rubbish
        /// There is no file.
        case gone
    }

    /// When the files of a seed's devices are damaged: a tape of its own, so that it moves nothing on the others.
    static func damage(_ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .damage)
        var faults: [Fault] = []
        for device in 0..<devices where chance.chance(0.7) {
            for _ in 0..<(1 + chance.below(2)) {
                let fault = TimedFault.damagedFile(
                    device: device, chance.pick(Damage.allCases), pick: chance.next(),
                    crashAfter: chance.chance(0.3) ? 1 + chance.below(150) : nil)
                faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), fault))
            }
        }
        return faults
    }
}
