public import SyncCore

/// What every ``DeltaCalculation`` must keep; run each rule on one that has no merges of its own for ``fields``.
public enum DeltaCalculationContract {
    /// The fields that the rules speak of, of an entity `card`.
    public static let fields = ["name", "desc", "votes", "labels"]

    public static let rules: [ContractRule<any DeltaCalculation>] = replaying + succeeding

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (any DeltaCalculation, Expectation) async throws -> Void
    ) -> ContractRule<any DeltaCalculation> { ContractRule("DeltaCalculation", name, body) }

    private static func delta(_ old: FieldValue?, _ new: FieldValue, _ rule: MergeRule) -> FieldDelta {
        FieldDelta(old: old, new: new, rule: rule)
    }

    /// One of each kind.
    private static let samples = [
        delta("a", "b", .lastWriter), delta("a", "b", .check), delta(3, 5, .sum),
        delta(.array(["x", "y"]), .array(["y", "z"]), .union),
        // Put in again where it stood before: a server that comes to the same tells nothing.
        delta(.array(["x", "z"]), .array(["x", "y", "z"]), .union),
    ]

    private static let replaying: [ContractRule<any DeltaCalculation>] = [
        rule("two in a row are one: from what the first began with to what the second says, at its time") {
            deltas, expect in
            let stamp = Stamp(milliseconds: 9, counter: 2)
            var second = delta("b", "c", .lastWriter)
            second.stamp = stamp
            let one = deltas.compose(delta("a", "b", .lastWriter), second)
            try expect.equal(one, FieldDelta(old: "a", new: "c", rule: .lastWriter, stamp: stamp), "the one")
        },
        rule("over the value it was made on a delta shows its own, whatever its rule") { deltas, expect in
            for delta in samples {
                let shown = deltas.rebase(delta, onto: delta.old ?? .null)
                try expect.isTrue(shown.isSame(as: delta.new), "\(delta.rule): \(shown)")
            }
        },
        rule("a written value stays, whatever the base became") { deltas, expect in
            for rule in [MergeRule.lastWriter, .check] {
                for base: FieldValue in [.null, "z", 7] {
                    try expect.equal(deltas.rebase(delta("a", "b", rule), onto: base), "b", "\(rule) over \(base)")
                }
            }
        },
        rule("what was added is added to the base; no value counts as 0, and whole numbers stay whole") {
            deltas, expect in
            try expect.equal(deltas.rebase(delta(3, 5, .sum), onto: 10), 12, "over 10")
            try expect.equal(deltas.rebase(delta(5, 3, .sum), onto: 10), 8, "taken away")
            try expect.equal(deltas.rebase(delta(nil, 4, .sum), onto: .null), 4, "over no value")
            try expect.equal(deltas.rebase(delta(1, .double(1.5), .sum), onto: 10), .double(10.5), "a part")
        },
        rule("what was put into a set is put in, what was taken out is taken out, and the rest stays") {
            deltas, expect in
            let change = delta(.array(["x", "y"]), .array(["y", "z"]), .union)
            guard case .array(let set) = deltas.rebase(change, onto: .array(["x", "y", "w"])) else {
                return try expect.isTrue(false, "it is no array")
            }
            try expect.equal(Set(set.map(SetElement.init)), Set(["y", "w", "z"].map(SetElement.init)), "over x, y, w")
            try expect.equal(set.count, 3, "elements")
        },
        rule("two replayed one after the other are the two in one") { deltas, expect in
            let pairs = [
                (delta("a", "b", .lastWriter), delta("b", "c", .lastWriter), FieldValue.string("z")),
                (delta(3, 5, .sum), delta(5, 4, .sum), 100),
                (
                    delta(.array(["x"]), .array(["x", "y"]), .union), delta(.array(["x", "y"]), .array(["y"]), .union),
                    .array(["x", "w"])
                ),
            ]
            for (first, second, base) in pairs {
                let step = deltas.rebase(second, onto: deltas.rebase(first, onto: base))
                let leap = deltas.rebase(deltas.compose(first, second), onto: base)
                try expect.isTrue(leap.isSame(as: step), "\(first.rule): \(leap) and \(step)")
            }
        },
        rule("it is a calculation: the same comes of the same, many at once") { deltas, expect in
            let all = await withTaskGroup(of: [FieldValue].self) { group in
                for _ in 0..<8 { group.addTask { samples.map { deltas.rebase($0, onto: 10) } } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            try expect.equal(Set(all).count, 1, "different results")
        },
    ]

    private static func change(_ fields: [String: FieldDelta]) -> Change {
        Change(
            id: "key", sequence: 1, record: RecordKey("card", "c"), operation: .update,
            stamp: Stamp(milliseconds: 1, counter: 0), fields: fields)
    }

    private static func record(_ fields: [String: FieldValue]) -> ServerRecord {
        ServerRecord(key: RecordKey("card", "c"), version: 7, fields: fields)
    }

    private static let succeeding: [ContractRule<any DeltaCalculation>] = [
        rule("a successor says over the record what the change says, from what the record has") { deltas, expect in
            let change = change(["name": delta("a", "b", .lastWriter), "votes": delta(1, 3, .sum)])
            let successor = deltas.successor(of: change, over: record(["name": "z", "votes": 10]), conflicts: 0)
            try expect.equal(successor?["name"], delta("z", "b", .lastWriter), "the name")
            try expect.equal(successor?["votes"], delta(10, 12, .sum), "the votes")
        },
        rule("where the record says it already, nothing is left to say") { deltas, expect in
            let change = change(["name": delta("a", "b", .lastWriter), "desc": delta("c", "d", .check)])
            let same = record(["name": "b", "desc": "d", "votes": 4])
            try expect.equal(deltas.successor(of: change, over: same, conflicts: 2), nil, "the successor")
        },
        rule("it checks until the fifth conflict in a row, and goes without from then on") { deltas, expect in
            let change = change(["desc": delta("c", "d", .check)])
            for (conflicts, rule) in [(0, MergeRule.check), (3, .check), (4, .lastWriter), (9, .lastWriter)] {
                let successor = deltas.successor(of: change, over: record(["desc": "x"]), conflicts: conflicts)
                try expect.equal(successor?["desc"], delta("x", "d", rule), "after \(conflicts)")
            }
        },
    ]
}
