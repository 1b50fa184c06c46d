import SyncTesting

extension FaultTape {
    /// When another process of the app opens a device's files, and how it ends: a tape of its own, so that it moves nothing on the
    /// others.
    static func secondProcessFaults(_ seed: UInt64, _ devices: Int, _ duration: Int64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .secondProcesses)
        guard chance.chance(0.12) else { return [] }
        var faults: [Fault] = []
        for device in 0..<devices where chance.chance(0.6) {
            for _ in 0..<(1 + chance.below(3)) {
                // A command is over in a moment; an extension stays for a while, and the system may make it stand still for longer than
                // its lease.
                var span = chance.chance(0.4) ? 500 + chance.below(4_000) : 5_000 + chance.below(90_000)
                var standing: Standing?
                if chance.chance(0.5) {
                    let milliseconds = chance.below(90_000)
                    standing = Standing(request: 1 + chance.below(3), milliseconds: Int64(milliseconds))
                    if chance.chance(0.7) { span += milliseconds }
                }
                let second = TimedFault.secondProcess(
                    device: device, milliseconds: Int64(span), stands: standing, isKilled: chance.chance(0.4))
                faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), second))
            }
        }
        return faults
    }
}
