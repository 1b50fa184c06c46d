import SyncTesting

extension FaultTape {
    /// Which requests of a seed's devices get there after the device has given up on them, and which come to another deployment: a
    /// tape of its own, so that it moves nothing on the others.
    static func lateArrivals(_ seed: UInt64, _ devices: Int) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .lateArrivals)
        guard chance.chance(0.3) else { return [] }
        let rate = chance.pick([0.03, 0.1, 0.2])
        var faults: [Fault] = []
        for device in 0..<devices {
            for number in 0..<150 where chance.chance(rate) {
                faults.append(.request(device: device, number: number, lateArrival(&chance)))
            }
        }
        return faults
    }

    private static func lateArrival(_ chance: inout SeededGenerator) -> RequestFault {
        guard chance.chance(0.8) else { return .otherDeployment }
        // A time-out, or a connection that breaks while something on the way still has the request.
        let patience = chance.chance(0.2) ? 120_000 : Int64(chance.below(5_000))
        return .arrivesLate(Int64(chance.below(90_000)), patience: patience)
    }
}
