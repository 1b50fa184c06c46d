public import SyncCore

/// What every ``WallClock`` must keep that tells the present time, or stands where tests begin.
public enum WallClockContract {
    public static let rules: [ContractRule<any WallClock>] = [
        ContractRule("WallClock", "it counts milliseconds since 1970") { clock, expect in
            // From 2020 until 2200.
            let now = clock.nowMilliseconds
            try expect.isTrue((1_577_836_800_000..<7_258_118_400_000).contains(now), "now is \(now)")
        },
        ContractRule("WallClock", "looking does not move it") { clock, expect in
            let first = clock.nowMilliseconds
            for _ in 0..<1_000 { _ = clock.nowMilliseconds }
            try expect.isTrue(abs(clock.nowMilliseconds - first) < 600_000, "ten minutes in a thousand looks")
        },
    ]
}

/// What every ``Randomness`` must keep.
public enum RandomnessContract {
    public static let rules: [ContractRule<any Randomness>] = [
        ContractRule("Randomness", "each of the 64 bits is set in some draws and not in others") { randomness, expect in
            let draws = (0..<256).map { _ in randomness.next() }
            try expect.equal(draws.reduce(0, |), .max, "bits that were ever set")
            try expect.equal(draws.reduce(.max, &), 0, "bits that were always set")
        },
        ContractRule("Randomness", "no draw comes again, also of many who draw at once") { randomness, expect in
            let draws = await withTaskGroup(of: [UInt64].self) { group in
                for _ in 0..<8 { group.addTask { (0..<1_000).map { _ in randomness.next() } } }
                return await group.reduce(into: Set<UInt64>()) { $0.formUnion($1) }
            }
            try expect.equal(draws.count, 8_000, "different draws")
        },
        ContractRule("Randomness", "a unit is of 0..<1, and in all parts of it") { randomness, expect in
            let units = (0..<1_000).map { _ in randomness.unit() }
            try expect.isTrue(units.allSatisfy { (0..<1).contains($0) }, "out of range")
            try expect.equal(Set(units.map { Int($0 * 10) }).count, 10, "tenths that were drawn")
        },
    ]
}

/// What every ``IDSource`` must keep.
public enum IDSourceContract {
    public static let rules: [ContractRule<any IDSource>] = [
        ContractRule("IDSource", "what it makes may be an id on the wire") { source, expect in
            for _ in 0..<100 {
                let id = source.makeID()
                try expect.isTrue(RecordKey.isValidID(id), "\(id) may not")
            }
        },
        ContractRule("IDSource", "no two are the same, also of many who ask at once") { source, expect in
            let ids = await withTaskGroup(of: [String].self) { group in
                for _ in 0..<8 { group.addTask { (0..<1_000).map { _ in source.makeID() } } }
                return await group.reduce(into: Set<String>()) { $0.formUnion($1) }
            }
            try expect.equal(ids.count, 8_000, "different ids")
        },
    ]
}
