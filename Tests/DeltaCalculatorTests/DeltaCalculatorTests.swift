import DeltaCalculator
import SyncCore
import SyncTesting
import Testing

@Suite struct DeltaCalculatorTests {
    private func change(_ fields: [String: FieldDelta]) -> Change {
        Change(
            id: "k", sequence: 1, record: RecordKey("card", "1"), operation: .update,
            stamp: Stamp(milliseconds: 1, counter: 0), fields: fields)
    }
    private func record(_ fields: [String: FieldValue]) -> ServerRecord {
        ServerRecord(key: RecordKey("card", "1"), version: 2, fields: fields)
    }

    @Test("It keeps the contract of its seam", arguments: DeltaCalculationContract.rules.indices)
    func contract(rule: Int) async throws {
        try await DeltaCalculationContract.rules[rule].check(DeltaCalculator())
        // Merges of other fields are none of theirs.
        let merging = DeltaCalculator(merges: [.init("card", "other"): { _, _, _ in "merged" }])
        try await DeltaCalculationContract.rules[rule].check(merging)
    }

    @Test("Two edits of a field become one, from the first's old value to the second's new")
    func composition() {
        let late = Stamp(milliseconds: 9, counter: 0)
        let delta = DeltaCalculator().compose(
            FieldDelta(old: "a", new: "b"), FieldDelta(old: "b", new: "c", stamp: late))
        #expect(delta == FieldDelta(old: "a", new: "c", stamp: late))
    }

    @Test("An unsent plain edit stays what the device reads, whatever the server's value becomes")
    func rebasePlain() {
        #expect(DeltaCalculator().rebase(FieldDelta(old: "a", new: "b"), onto: "z") == "b")
    }

    @Test(
        "An unsent sum is added to the server's value, stays whole where all is, and falls back to the local value past 64 bits"
    )
    func rebaseSum() {
        let calculator = DeltaCalculator()
        #expect(calculator.rebase(FieldDelta(old: 3, new: 5, rule: .sum), onto: 10) == 12)
        #expect(calculator.rebase(FieldDelta(old: nil, new: 5, rule: .sum), onto: .null) == .int(5))
        #expect(calculator.rebase(FieldDelta(old: 2, new: 5, rule: .sum), onto: .null) == .int(3))
        #expect(calculator.rebase(FieldDelta(old: nil, new: 5, rule: .sum), onto: .double(0.5)) == .double(5.5))
        #expect(calculator.rebase(FieldDelta(old: "x", new: 5, rule: .sum), onto: 1) == 5)
        #expect(calculator.rebase(FieldDelta(old: 0, new: 5, rule: .sum), onto: .int(.max)) == 5)
    }

    @Test("An unsent union puts in what it put in and takes out what it took out")
    func rebaseUnion() {
        let delta = FieldDelta(old: ["a", "b"], new: ["b", "c"], rule: .union)
        #expect(DeltaCalculator().rebase(delta, onto: ["a", "b", "x"]) == ["b", "x", "c"])
        #expect(DeltaCalculator().rebase(FieldDelta(old: ["a"], new: [], rule: .union), onto: .null) == [])
        // No value is a set without elements, too.
        #expect(DeltaCalculator().rebase(FieldDelta(old: ["a"], new: .null, rule: .union), onto: ["a", "x"]) == ["x"])
    }

    @Test(
        "Seed 206739: over what it was written over a union shows what was written, where something was put in again in its old place"
    )
    func rebaseUnionInPlace() {
        let delta = FieldDelta(old: ["a", "c"], new: ["a", "b", "c"], rule: .union)
        #expect(DeltaCalculator().rebase(delta, onto: ["a", "c"]) == ["a", "b", "c"])
        #expect(DeltaCalculator().rebase(delta, onto: ["a", "c", "x"]) == ["a", "c", "x", "b"])
        #expect(DeltaCalculator().rebase(FieldDelta(old: ["a"], new: .null, rule: .union), onto: ["a"]) == [])
        // What is no set of distinct elements is made one.
        let twice = FieldDelta(old: ["a"], new: ["a", "b", "b"], rule: .union)
        #expect(DeltaCalculator().rebase(twice, onto: ["a"]) == ["a", "b"])
    }

    @Test("An unsent union that puts nothing in and takes nothing out leaves what is there, and be it no value")
    func rebaseEmptyUnion() {
        for base: FieldValue in [.null, [], ["x"]] {
            for delta in [
                FieldDelta(old: nil, new: [], rule: .union), FieldDelta(old: ["a"], new: ["a"], rule: .union),
            ] {
                #expect(DeltaCalculator().rebase(delta, onto: base) == base)
            }
        }
    }

    @Test("A conflict's successor begins at the server's value, and the app's merge says where it ends")
    func ownMerge() {
        let calculator = DeltaCalculator(merges: [
            .init("card", "desc"): { base, mine, theirs in .array([base, mine, theirs]) }
        ])
        let successor = calculator.successor(
            of: change(["desc": FieldDelta(old: "a", new: "b", rule: .check)]), over: record(["desc": "z"]),
            conflicts: 0)
        #expect(successor == ["desc": FieldDelta(old: "z", new: ["a", "b", "z"], rule: .check)])
    }

    @Test("The fifth conflict in a row sends its successor without check, so that it ends")
    func fifthConflict() {
        let mine = change(["desc": FieldDelta(old: "a", new: "b", rule: .check)])
        let theirs = record(["desc": "z"])
        #expect(DeltaCalculator().successor(of: mine, over: theirs, conflicts: 3)?["desc"]?.rule == .check)
        #expect(DeltaCalculator().successor(of: mine, over: theirs, conflicts: 4)?["desc"]?.rule == .lastWriter)
    }

    @Test("Where the server already has the value, nothing is left to say")
    func nothingLeft() {
        let mine = change(["desc": FieldDelta(old: "a", new: "b", rule: .check)])
        #expect(DeltaCalculator().successor(of: mine, over: record(["desc": "b"]), conflicts: 0) == nil)
    }
}
