import SyncTesting

/// What the users of a seed's devices do, and when: drawn before the run, so that leaving a step out moves no other.
public struct WorkloadTape: Sendable {
    /// Something that a user does. Numbers choose among what the device has at that moment.
    public enum Action: Sendable, Hashable {
        /// A record of the entity at this place, counted around.
        case create(entity: Int, parent: UInt64, fields: UInt64)
        case update(record: UInt64, fields: UInt64)
        /// Several edits in one transaction; `asUnit` asks the server to do all or none.
        case transaction(records: [UInt64], fields: UInt64, asUnit: Bool)
        case move(record: UInt64, to: UInt64)
        case delete(record: UInt64)
        /// Makes a record again that was made before, here or elsewhere, and does not show: an undo, or an app whose ids are names.
        case remake(record: UInt64, fields: UInt64)
        /// Writes a value that is there already.
        case rewrite(record: UInt64)
        case syncNow
        case cancel(UInt64)
        case retry(UInt64)
        case discard(UInt64)
    }

    public struct Step: Sendable, Hashable {
        /// Its place on the tape, by which it is left out.
        public let number: Int
        public let atMilliseconds: Int64
        public let device: Int
        public let action: Action
    }

    public let devices: Int
    public let steps: [Step]
    /// How long users work, in milliseconds; longer only where they have not written enough by then.
    public let duration: Int64
    /// Users stop after so many writes.
    public let goal: Int

    /// The tape of a seed.
    ///
    /// Devices are down, or have nothing that a step could be done to, so it takes more steps than writes: those that
    /// are due after ``duration`` are there for the seeds in which too little came of the others.
    /// - Parameter bias: what users do more often than usual.
    public init(seed: UInt64, bias: TapeBias? = nil) {
        var chance = SeededGenerator(seed: seed, .workload)
        let devices = Self.devices(&chance)
        // A little more than a seed needs to count; now and then a world that grows.
        let goal = chance.chance(0.1) ? 70 + chance.below(70) : 50 + chance.below(10)
        let count = goal * 4 / 3
        let duration = Int64(20_000 + chance.below(4) * 90_000)
        // Few records make conflicts, many make pages.
        let heat = 0.2 + chance.unit() * 0.7
        let usual = bias?.weights ?? Self.usual
        let weights = seed >= Self.firstOfSwarm ? Self.drawn(usual, &chance) : usual
        var times = (0..<count).map { _ in Int64(chance.below(Int(duration))) }
        times.sort()
        let spacing = max(duration / Int64(count), 1_000)
        times += (0..<goal).map { duration + Int64($0) * spacing }
        var steps: [Step] = []
        for number in times.indices {
            // The first steps give everybody something to work on.
            let device = number < 4 ? 0 : chance.below(devices)
            let action = Self.action(number, &chance, heat: heat, weights)
            steps.append(
                Step(number: number, atMilliseconds: times[number], device: device, action: action))
        }
        self.devices = devices
        self.goal = goal
        self.duration = duration
        self.steps = steps
    }

    /// Mostly two or three; with a single one little can go wrong.
    private static func devices(_ chance: inout SeededGenerator) -> Int {
        switch chance.below(40) {
        case 0: 1
        case 1..<19: 2
        case 19..<32: 3
        case 32..<37: 4
        default: 5
        }
    }

    /// From this seed on each draws how often its users do what.
    public static let firstOfSwarm: UInt64 = 1_000_000

    /// How many of a hundred steps are which, in the order of ``action(_:_:heat:_:)``.
    private static let usual = [3, 24, 40, 6, 5, 7, 2, 5, 3, 3, 2]

    /// Some of the usual are left out, some come several times as often: what is rare meets what is rare.
    private static func drawn(_ usual: [Int], _ chance: inout SeededGenerator) -> [Int] {
        usual.enumerated().map { place, weight in
            switch place {
            case 1, 2: weight / chance.pick([1, 1, 2, 4])
            default: weight * chance.pick([0, 1, 1, 3, 6])
            }
        }
    }

    private static func action(
        _ number: Int, _ chance: inout SeededGenerator, heat: Double, _ weights: [Int]
    ) -> Action {
        if number < 4 {
            return .create(entity: number, parent: chance.next(), fields: chance.next())
        }
        /// The lower the number, the older the record that it chooses: hot records are the oldest.
        func record() -> UInt64 { chance.chance(heat) ? UInt64(chance.below(3)) : chance.next() >> 8 }
        var (rest, kind) = (chance.below(weights.reduce(0, +)), 0)
        while rest >= weights[kind] { (rest, kind) = (rest - weights[kind], kind + 1) }
        switch kind {
        case 0: return .remake(record: chance.next() >> 8, fields: chance.next())
        case 1:
            return .create(
                entity: chance.pick([0, 1, 1, 2, 2, 2, 3, 3]), parent: record(), fields: chance.next())
        case 2: return .update(record: record(), fields: chance.next())
        case 3:
            let records = (0..<(2 + chance.below(3))).map { _ in record() }
            return .transaction(records: records, fields: chance.next(), asUnit: chance.chance(0.5))
        case 4: return .move(record: record(), to: chance.next() >> 8)
        case 5: return .delete(record: chance.next() >> 8)
        case 6: return .rewrite(record: record())
        case 7: return .syncNow
        case 8: return .cancel(chance.next() >> 8)
        case 9: return .retry(chance.next() >> 8)
        default: return .discard(chance.next() >> 8)
        }
    }
}
