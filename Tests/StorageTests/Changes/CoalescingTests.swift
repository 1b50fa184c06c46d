@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// The server's rule for one record (PROTOCOL.md, *Last writer wins, per field*): for each field its greatest write; dead
/// while the greatest delete is above all of them; sums count from the greatest plain write on.
private struct FieldServer {
    struct Write: Hashable {
        var stamp: Stamp
        var value: Int64
        var isSum: Bool
    }
    var writes: [String: [Write]] = [:]
    var deleted = Stamp.zero

    mutating func apply(_ change: StoredChange) {
        func add(_ name: String, _ delta: FieldDelta, isSum: Bool) {
            let difference = (delta.new.int ?? 0) - (delta.old?.int ?? 0)
            writes[name, default: []].append(
                Write(
                    stamp: delta.stamp ?? change.stamp, value: isSum ? difference : delta.new.int ?? 0, isSum: isSum))
        }
        switch change.operation {
        case .delete: deleted = max(deleted, change.stamp)
        case .update: for (name, delta) in change.fields { add(name, delta, isSum: delta.rule == .sum) }
        case .create:
            for (name, delta) in change.fields { add(name, delta, isSum: false) }
            guard change.stamp > deleted else { return }
        // A newer create writes null to what it does not name; here it names all.
        }
    }

    /// The record's fields, or `nil` for a dead one.
    var state: [String: Int64]? {
        guard let last = writes.values.joined().map(\.stamp).max(), last > deleted else { return nil }
        return writes.mapValues { all in
            let plain = all.filter { !$0.isSum }.max { $0.stamp < $1.stamp }
            let sums = all.filter { $0.isSum && $0.stamp > plain?.stamp ?? .zero }
            return (plain?.value ?? 0) + sums.reduce(0) { $0 + $1.value }
        }
    }
}

@Suite struct CoalescingTests {
    @Test(
        "QUE-09 the server's state after merging is the state without, whatever others write between",
        arguments: 0..<400)
    func equality(seed: UInt64) throws {
        var chance = SeededGenerator(seed: seed)
        // Times at which this device and another one write; each is used once.
        var times = Array(1...40).map { Stamp(packed: UInt64($0)) }
        times.shuffle(using: &chance)
        let isKnown = Bool.random(using: &chance)
        let mine = run(times.prefix(8).sorted(), isKnown: isKnown, &chance)
        // An update of another device after our delete would bring back what was written before it: the table's exception.
        let last = mine.last { $0.operation == .delete }?.stamp ?? .zero
        let theirs = run(times.suffix(6).sorted(), isKnown: true, &chance).filter {
            isKnown && $0.stamp < last || last == .zero && isKnown
        }
        var plain = FieldServer()
        var merged = FieldServer()
        var known: [StoredChange] = []
        if isKnown {
            known = [change(.create, Stamp(packed: 0), ["a": (nil, 1, .lastWriter), "n": (nil, 0, .sum)])]
        }
        for other in known + mine + theirs { plain.apply(other) }
        for other in known + coalesced(mine, isKnown: isKnown) + theirs { merged.apply(other) }
        #expect(plain.state == merged.state, "\(mine.map { ($0.operation, $0.stamp, $0.fields) })")
    }

    /// Changes of one record, each possible after the one before.
    private func run(_ times: [Stamp], isKnown: Bool, _ chance: inout SeededGenerator) -> [StoredChange] {
        var isLive = isKnown
        var votes: Int64 = 0
        return times.map { time in
            let value = Int64(time.packed) * 100
            guard isLive else {
                isLive = true
                votes = 0
                return change(.create, time, ["a": (nil, value, .lastWriter), "n": (nil, 0, .sum)])
            }
            switch Int.random(in: 0..<6, using: &chance) {
            case 0:
                isLive = false
                return change(.delete, time, ["a": (.int(1), 0, .lastWriter)])
            case 1, 2:
                votes += 1
                return change(.update, time, ["n": (.int(votes - 1), votes, .sum)])
            case 3:
                votes += 1
                return change(
                    .update, time, ["a": (.int(0), value, .lastWriter), "n": (.int(votes - 1), votes, .sum)])
            default: return change(.update, time, ["a": (.int(0), value, .lastWriter)])
            }
        }
    }

    private func coalesced(_ changes: [StoredChange], isKnown: Bool) -> [StoredChange] {
        var result: [StoredChange] = []
        for change in changes {
            guard let last = result.last else {
                result.append(change)
                continue
            }
            let earlier = result.dropLast()
            switch Coalescing(deltas: LastWriterDeltas()).combine(
                last, change, isKnown: { isKnown || !earlier.isEmpty })
            {
            case .both: result.append(change)
            case .one(let one): result[result.count - 1] = one
            case .nothing: result.removeLast()
            }
        }
        return result
    }

    private func change(
        _ operation: Operation, _ stamp: Stamp, _ fields: [String: (FieldValue?, Int64, MergeRule)],
        unit: String? = nil, intent: String? = nil, state: StoredChange.State = .pending
    ) -> StoredChange {
        StoredChange(
            position: Int64(stamp.packed), sequence: Int64(stamp.packed), key: "k\(stamp.packed)",
            record: RecordKey("card", "c1"), operation: operation, schema: 1, stamp: stamp, madeAt: 0,
            fields: fields.mapValues { FieldDelta(old: $0.0, new: .int($0.1), rule: $0.2) }, state: state, unit: unit,
            intent: intent, attempts: 0, conflicts: 0)
    }

    @Test("what was sent, other units and other intents stay apart", arguments: [0, 1, 2, 3])
    func apart(which: Int) {
        let stamps = (Stamp(packed: 1), Stamp(packed: 2))
        let second = change(.update, stamps.1, ["a": (1, 2, .lastWriter)])
        let first =
            switch which {
            case 0: change(.update, stamps.0, ["a": (0, 1, .lastWriter)], state: .uncertain)
            case 1: change(.update, stamps.0, ["a": (0, 1, .lastWriter)], unit: "u")
            case 2: change(.update, stamps.0, ["a": (0, 1, .lastWriter)], intent: "archive")
            default: change(.update, stamps.0, ["a": (0, 1, .lastWriter)], state: .blockedAfterSending)
            }
        #expect(Coalescing(deltas: LastWriterDeltas()).combine(first, second, isKnown: { true }) == .both)
    }

    @Test("a field that came back to what it was is still written")
    func backAgain() {
        let first = change(.update, Stamp(packed: 1), ["a": (1, 2, .lastWriter)])
        let second = change(.update, Stamp(packed: 2), ["a": (2, 1, .lastWriter)])
        guard case .one(let one) = Coalescing(deltas: LastWriterDeltas()).combine(first, second, isKnown: { true })
        else {
            Issue.record("not merged")
            return
        }
        #expect(one.fields["a"] == FieldDelta(old: 1, new: 1))
        #expect(one.key == second.key && one.sequence == second.sequence)
    }
}
