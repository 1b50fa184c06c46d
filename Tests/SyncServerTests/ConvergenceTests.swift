import SyncCore
import SyncTesting
import Testing

@testable import SyncServer

@Suite("Any order of arrival")
struct ConvergenceTests {
    private static let tree = [
        RecordKey("board", "b1"), RecordKey("board", "b2"), RecordKey("list", "l1"), RecordKey("list", "l2"),
        RecordKey("card", "c1"), RecordKey("card", "c2"),
    ]

    /// The creates, from one device, before everything else.
    private func creates() -> [IncomingChange] {
        Self.tree.enumerated().map { index, key in
            let parent: [IncomingChange.Field] =
                switch key.entity {
                case "list": [field("idBoard", .string(key.id == "l1" ? "b1" : "b2"), at: 100)]
                case "card": [field("idList", .string(key.id == "c1" ? "l1" : "l2"), at: 100)]
                default: []
                }
            return change(.create, key, parent + [field("n", 0, at: 100)], at: 100, "a", Int64(index + 1))
        }
    }

    private func field(
        _ name: String, _ new: FieldValue, old: FieldValue? = nil, _ rule: MergeRule = .lastWriter, at time: UInt64
    ) -> IncomingChange.Field {
        IncomingChange.Field(
            name: name, old: old, new: new, rule: rule, stamp: Stamp(milliseconds: time, counter: 0))
    }

    private func change(
        _ operation: Operation, _ key: RecordKey, _ fields: [IncomingChange.Field], at time: UInt64, _ device: String,
        _ sequence: Int64
    ) -> IncomingChange {
        IncomingChange(
            id: "\(device)\(sequence)", device: device, sequence: sequence, record: key, operation: operation,
            stamp: Stamp(milliseconds: time, counter: 0), fields: fields.sorted { $0.name < $1.name })
    }

    private func randomChange(_ sequence: Int64, _ chance: inout SeededGenerator) -> IncomingChange {
        let device = ["a", "b", "c"].randomElement(using: &chance) ?? "a"
        let key = Self.tree.randomElement(using: &chance) ?? Self.tree[0]
        // Few times, so that many are equal and the device decides.
        let time = UInt64.random(in: 101...112, using: &chance)
        switch Int.random(in: 0..<12, using: &chance) {
        case 0, 1: return change(.delete, key, [], at: time, device, sequence)
        case 2, 3:
            let difference = FieldValue.int(.random(in: -5...5, using: &chance))
            return change(.update, key, [field("n", difference, old: 0, .sum, at: time)], at: time, device, sequence)
        case 4, 5:
            let all = ["x", "y", "z"].map(FieldValue.string)
            let old = all.filter { _ in Bool.random(using: &chance) }
            let new = all.filter { _ in Bool.random(using: &chance) }.shuffled(using: &chance)
            let union = field("tags", .array(new), old: .array(old), .union, at: time)
            return change(.update, key, [union], at: time, device, sequence)
        case 6 where key.entity == "card":
            let list = FieldValue.string(["l1", "l2"].randomElement(using: &chance) ?? "l1")
            return change(.update, key, [field("idList", list, at: time)], at: time, device, sequence)
        case 7: return change(.update, key, [field("tags", ["p", "x"], at: time)], at: time, device, sequence)
        default:
            let own = UInt64.random(in: 101...112, using: &chance)
            let fields = [
                field("name", .int(.random(in: 0..<3, using: &chance)), at: time),
                field("n", .int(.random(in: 0..<50, using: &chance)), at: own),
            ]
            return change(.update, key, fields, at: max(time, own), device, sequence)
        }
    }

    @Test("DAT-03 10,000 random sets of changes from three devices, shuffled: the same state")
    func shuffled() throws {
        for seed in UInt64(0)..<10_000 {
            var chance = SeededGenerator(seed: seed)
            let changes = (0..<Int.random(in: 2...9, using: &chance)).map { randomChange(Int64($0 + 10), &chance) }
            var states: [[String: String]] = []
            for _ in 0..<2 {
                let source = try MemorySource(entities: TestServer.entities)
                for change in creates() + changes.shuffled(using: &chance) { _ = try source.decide(change) }
                states.append(source.seen)
            }
            guard states[0] == states[1] else {
                Issue.record("seed \(seed): \(states[0]) against \(states[1])")
                return
            }
        }
    }

    /// A change of one record: as likely a delete or a create as an update, so that lives of it follow each other.
    private func randomLife(_ sequence: Int64, _ chance: inout SeededGenerator) -> IncomingChange {
        let key = RecordKey("board", "b")
        let time = UInt64.random(in: 101...116, using: &chance)
        let device = ["a", "b", "c"].randomElement(using: &chance) ?? "a"
        let names = ["p", "q", "r"].filter { _ in Bool.random(using: &chance) }
        let fields = names.map { name in
            // Some older than the change itself, as those of a create that was edited before it was sent.
            let own = Bool.random(using: &chance) ? time : UInt64.random(in: 101...time, using: &chance)
            return field(name, .int(.random(in: 0..<3, using: &chance)), at: own)
        }
        switch Int.random(in: 0..<10, using: &chance) {
        case 0..<3: return change(.delete, key, [], at: time, device, sequence)
        case 3..<6: return change(.create, key, fields, at: time, device, sequence)
        case 6:
            let sum = field("n", .int(.random(in: 1...5, using: &chance)), old: 0, .sum, at: time)
            return change(.update, key, [sum], at: time, device, sequence)
        case 7:
            let union = field("t", [.int(.random(in: 0..<3, using: &chance))], old: [], .union, at: time)
            return change(.update, key, [union], at: time, device, sequence)
        default: return change(.update, key, fields, at: time, device, sequence)
        }
    }

    private func accept(_ change: IncomingChange, into state: inout RecordState) -> Bool {
        switch state.apply(change).kind {
        case .applied, .merged: true
        case .conflict, .rejected: false
        }
    }

    @Test("DAT-05 several deletes with creates between them, shuffled: the same state for the same accepted changes")
    func lives() throws {
        var compared = 0
        for seed in UInt64(0)..<10_000 {
            var chance = SeededGenerator(seed: seed &+ 1 << 32)
            let key = RecordKey("board", "b")
            let changes = (0..<Int.random(in: 3...8, using: &chance)).map { randomLife(Int64($0 + 2), &chance) }
            let first = change(.create, key, [field("p", 0, at: 100), field("q", 0, at: 100)], at: 100, "a", 1)
            // What shows when it lives at last, whatever happened.
            let last = change(.update, key, [field("z", 1, at: 200)], at: 200, "a", 20)
            // The first order says which changes are accepted; only those come in the second.
            var rest = changes.shuffled(using: &chance)
            var states: [[String]] = []
            while states.count < 2 {
                var state = RecordState()
                let accepted = ([first] + rest + [last]).filter { accept($0, into: &state) }
                guard states.isEmpty || accepted.count == rest.count + 2 else { break }
                // A field that is null and one that is not there are the same.
                states.append(state.fields.filter { !$0.value.isNull }.map { "\($0.name)=\($0.value)" })
                rest = accepted.dropFirst().dropLast().shuffled(using: &chance)
            }
            guard states.count == 2 else { continue }
            compared += 1
            guard states[0] == states[1] else {
                Issue.record("seed \(seed): \(states[0]) against \(states[1]) of \(changes)")
                return
            }
        }
        #expect(compared > 5_000, "\(compared)")
    }

    @Test(
        "DAT-05 plain writes, sums beyond 64 bits and unions of one field, shuffled: the same value for the same accepted changes"
    )
    func rulesOfOneField() throws {
        var compared = 0
        for seed in UInt64(0)..<5_000 {
            var chance = SeededGenerator(seed: seed &+ 3 << 32)
            let key = RecordKey("board", "b")
            let changes = (0..<Int.random(in: 3...7, using: &chance)).map { number in
                let time = UInt64.random(in: 101...116, using: &chance)
                let large = FieldValue.int(.random(in: Int64.min / 2...Int64.max / 2, using: &chance))
                let write =
                    switch Int.random(in: 0..<8, using: &chance) {
                    case 0: field("n", large, at: time)
                    case 1: field("n", [1, 2], at: time)
                    case 2: field("n", [.int(.random(in: 0..<3, using: &chance))], old: [2], .union, at: time)
                    default: field("n", large, old: 0, .sum, at: time)
                    }
                return change(.update, key, [write], at: time, "a", Int64(number + 2))
            }
            let first = change(.create, key, [field("n", 0, at: 100)], at: 100, "a", 1)
            var rest = changes.shuffled(using: &chance)
            var states: [[String]] = []
            while states.count < 2 {
                var state = RecordState()
                let accepted = ([first] + rest).filter { accept($0, into: &state) }
                guard states.isEmpty || accepted.count == rest.count + 1 else { break }
                states.append(["\(state.value(of: "n"))"])
                rest = accepted.dropFirst().shuffled(using: &chance)
            }
            guard states.count == 2 else { continue }
            compared += 1
            guard states[0] == states[1] else {
                Issue.record("seed \(seed): \(states[0]) against \(states[1]) of \(changes)")
                return
            }
        }
        #expect(compared > 1_500, "\(compared)")
    }

    @Test("DAT-05 two deletes with a create between them: what the create did not name is null, in every order")
    func twoDeletes() throws {
        let key = RecordKey("board", "b")
        let first = change(.create, key, [field("p", 1, at: 1), field("q", 2, at: 1)], at: 1, "a", 1)
        let rest = [
            change(.delete, key, [], at: 5, "a", 2), change(.create, key, [field("p", 3, at: 7)], at: 7, "b", 1),
            change(.delete, key, [], at: 9, "b", 2), change(.update, key, [field("r", 4, at: 10)], at: 10, "c", 1),
        ]
        for order in [[0, 1, 2, 3], [0, 2, 1, 3], [2, 1, 0, 3], [2, 1, 3, 0], [2, 0, 1, 3]] {
            let source = try MemorySource(entities: TestServer.entities)
            for change in [first] + order.map({ rest[$0] }) {
                let decision = try source.decide(change)
                #expect(!decision.isRejection)
            }
            let state = try #require(source.records[key]?.state)
            #expect(!state.isDead && state.value(of: "p") == 3 && state.value(of: "r") == 4, "\(order)")
            #expect(state.value(of: "q") == .null, "\(order)")
        }
    }

    @Test("DAT-05 one delete above the create: it counts as an update, and the record is revived whole")
    func olderCreate() throws {
        let key = RecordKey("board", "b")
        let source = try MemorySource(entities: TestServer.entities)
        let all = [
            change(.create, key, [field("p", 1, at: 1), field("q", 2, at: 1)], at: 1, "a", 1),
            change(.delete, key, [], at: 9, "b", 2), change(.create, key, [field("p", 3, at: 7)], at: 7, "b", 1),
            change(.update, key, [field("r", 4, at: 10)], at: 10, "c", 1),
        ]
        for change in all { _ = try source.decide(change) }
        let state = try #require(source.records[key]?.state)
        #expect(state.value(of: "p") == 3 && state.value(of: "q") == 2 && state.value(of: "r") == 4)
    }

    @Test("a record's fields are what the greatest writes say, by a second reading of the contract")
    func oracle() throws {
        for seed in UInt64(0)..<2_000 {
            var chance = SeededGenerator(seed: seed &+ 7 << 40)
            let changes = (0..<8).map { randomChange(Int64($0 + 10), &chance) }.filter { $0.record.id == "b1" }
            let source = try MemorySource(entities: TestServer.entities)
            let all = [creates()[0]] + changes.shuffled(using: &chance)
            for change in all { _ = try source.decide(change) }
            let state = try #require(source.records[RecordKey("board", "b1")]?.state)
            #expect(state.isDead == isDead(all))
            #expect(state.value(of: "n") == number(all))
            #expect(state.value(of: "name") == greatest(all, "name")?.value ?? .null)
        }
    }

    private func greatest(_ changes: [IncomingChange], _ name: String) -> (tag: WriteTag, value: FieldValue)? {
        changes.flatMap { change in
            change.fields.filter { $0.name == name && $0.rule == .lastWriter }.map {
                (tag: change.tag(of: $0), value: $0.new)
            }
        }.max { $0.tag < $1.tag }
    }

    private func number(_ changes: [IncomingChange]) -> FieldValue {
        guard let plain = greatest(changes, "n"), case .int(var total) = plain.value else { return .null }
        for change in changes {
            for field in change.fields where field.rule == .sum && plain.tag < change.tag(of: field) {
                if case .int(let more) = field.new { total += more }
            }
        }
        return .int(total)
    }

    private func isDead(_ changes: [IncomingChange]) -> Bool {
        let deletes = changes.filter { $0.operation == .delete }.map(\.tag)
        var writes = changes.filter { $0.operation == .create }.map(\.tag)
        for change in changes {
            for field in change.fields {
                if field.rule == .union, let difference = SetDifference(old: field.old, new: field.new),
                    difference.added.isEmpty, difference.removed.isEmpty
                {
                    continue
                }
                writes.append(change.tag(of: field))
            }
        }
        guard let delete = deletes.max(), let write = writes.max() else { return false }
        return write < delete
    }
}
