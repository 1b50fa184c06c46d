import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncServer

@Suite("A unit that is undone")
struct UndoneUnitTests {
    private func change(
        _ operation: SyncCore.Operation, _ entity: String, _ id: String, _ fields: [String: FieldValue],
        _ sequence: Int64,
        unit: String? = nil
    ) -> DirtyRecord {
        let stamp = Stamp(milliseconds: 1_000 + UInt64(sequence), counter: 0)
        let key = RecordKey(entity, id)
        let change = IncomingChange(
            id: "k\(sequence)", device: "d", sequence: sequence, record: key, operation: operation, stamp: stamp,
            fields: fields.sorted { $0.key < $1.key }.map {
                IncomingChange.Field(name: $0.key, old: nil, new: $0.value, rule: .lastWriter, stamp: stamp)
            }, unit: unit)
        return DirtyRecord(
            changeID: change.id, device: "d", sequence: sequence, record: key, isCreate: operation == .create,
            unit: unit,
            intent: nil, digest: ContentDigest(), content: .change(change))
    }

    /// Two boards with a list each, and so many cards in the first one's.
    private func source(cards: Int) throws -> MemorySource {
        let source = try MemorySource(entities: TestServer.entities)
        var records: [(RecordKey, parent: Int64?, root: Int64, [String: FieldValue])] = [
            (RecordKey("board", "b1"), nil, 1, [:]), (RecordKey("board", "b2"), nil, 2, [:]),
            (RecordKey("list", "l1"), 1, 1, ["idBoard": "b1"]), (RecordKey("list", "l2"), 2, 2, ["idBoard": "b2"]),
        ]
        for index in 0..<cards {
            records.append((RecordKey("card", "c\(index)"), 3, 1, ["idList": "l1", "name": "x"]))
        }
        for (index, record) in records.enumerated() {
            let row = Int64(index + 1)
            let tag = WriteTag(stamp: Stamp(milliseconds: 1, counter: 0), device: "d", sequence: row)
            let fields = record.3.sorted { $0.key < $1.key }.map {
                FieldState(name: $0.key, written: $0.value, at: tag)
            }
            let state = RecordState(
                created: tag, deleted: nil, firstDeleted: nil, namedBelow: [], fields: FieldList(fields))
            source.keep(
                StoredRecord(row: row, root: record.root, version: row, isDead: false, state: state), as: record.0,
                under: record.parent)
        }
        return source
    }

    private func decide(_ changes: [DirtyRecord], in source: MemorySource) throws -> Proceedings {
        var proceedings = Proceedings(ledger: Ledger(rules: source.rules, protectedFields: [], head: source.head))
        try proceedings.decide(changes, in: source)
        return proceedings
    }

    /// What is to be written of a ledger.
    private func effects(_ ledger: Ledger) -> [String] {
        let entries = ledger.entries.filter { $0.isTouched || $0.hasActivity }.map { entry in
            let parents = entry.parents.map { ledger.entries[$0].key.description }
            return """
                \(entry.key) \(entry.version) \(entry.isDead) \(entry.isTouched) \(entry.isEcho) \(entry.hasActivity) \
                \(ledger.entries.first { $0.row == entry.root }?.key.description ?? "none") \(parents) \(entry.state.fields.map { "\($0)" })
                """
        }
        // By their names: a record that a unit would have made has taken its number with it.
        let name = { (row: Int64) in ledger.entries.first { $0.row == row }?.key.description ?? "none" }
        let leavings = ledger.leavings.map { "\(name($0.row)) left \(name($0.root)) with \($0.version)" }
        let heard = ledger.heard.map { "\(ledger.entries[$0].key) heard up to \($1)" }.sorted()
        return entries.sorted() + leavings + heard + ledger.touchedRoots.map(name).sorted() + ["\(ledger.head)"]
    }

    private func randomChange(_ sequence: Int64, _ unit: String?, _ chance: inout SeededGenerator) -> DirtyRecord {
        let list = FieldValue.string("l\(Int.random(in: 1...2, using: &chance))")
        let card = "c\(Int.random(in: 0..<5, using: &chance))"
        switch Int.random(in: 0..<12, using: &chance) {
        case 0: return change(.delete, "list", "l2", [:], sequence, unit: unit)
        case 1: return change(.delete, "card", card, [:], sequence, unit: unit)
        case 2: return change(.create, "list", "l\(sequence)", ["idBoard": "b1"], sequence, unit: unit)
        case 3:
            return change(
                .create, "card", "n\(Int.random(in: 0..<3, using: &chance))", ["idList": list], sequence, unit: unit)
        case 4: return change(.update, "card", "none", ["name": "x"], sequence, unit: unit)
        case 5:
            let board = FieldValue.string("b\(Int.random(in: 1...2, using: &chance))")
            return change(.update, "list", "l1", ["idBoard": board], sequence, unit: unit)
        case 6, 7: return change(.update, "card", card, ["idList": list], sequence, unit: unit)
        case 8: return change(.delete, "card", "n\(Int.random(in: 0..<3, using: &chance))", [:], sequence, unit: unit)
        default: return change(.update, "card", card, ["name": .int(sequence)], sequence, unit: unit)
        }
    }

    @Test("DAT-28 leaves nothing: the request has the effects that it has without it")
    func random() throws {
        var undone = 0
        for seed in UInt64(0)..<600 {
            var chance = SeededGenerator(seed: seed)
            var changes: [DirtyRecord] = []
            for group in 0..<8 {
                let count = Int.random(in: 1...3, using: &chance)
                for _ in 0..<count {
                    changes.append(randomChange(Int64(changes.count + 1), count == 1 ? nil : "u\(group)", &chance))
                }
            }
            let whole = try decide(changes, in: try source(cards: 5))
            let done = zip(changes, whole.outcomes).filter { $1.decision.isDone }.map(\.0)
            undone += zip(changes, whole.outcomes).count { $0.unit != nil && !$1.decision.isDone }
            let rest = try decide(done, in: try source(cards: 5))
            guard effects(whole.ledger) == effects(rest.ledger) else {
                Issue.record("seed \(seed): \(effects(whole.ledger)) against \(effects(rest.ledger))")
                return
            }
        }
        #expect(undone > 1_000)
    }

    @Test("costs what it touched, not what stands beside it in the request", arguments: [false, true])
    func cost(isUndone: Bool) throws {
        /// Processor time of 200 units, in a request that has come upon so many cards before.
        func time(cards: Int) throws -> UInt64 {
            let source = try source(cards: cards)
            var changes: [DirtyRecord] = []
            for index in 0..<200 {
                let sequence = Int64(changes.count + 1)
                changes.append(change(.update, "card", "c\(index)", ["name": "y"], sequence, unit: "u\(index)"))
                let other = isUndone ? "none" : "c\(index)"
                changes.append(change(.update, "card", other, ["name": "z"], sequence + 1, unit: "u\(index)"))
            }
            var least = UInt64.max
            for _ in 0..<3 {
                var ledger = Ledger(rules: source.rules, protectedFields: [], head: source.head)
                for index in 0..<cards { _ = try ledger.find(RecordKey("card", "c\(index)"), in: source) }
                var proceedings = Proceedings(ledger: ledger)
                ledger = Ledger(rules: [:], protectedFields: [], head: 0)
                let began = processorTime()
                try proceedings.decide(changes, in: source)
                least = min(least, processorTime() - began)
            }
            return least
        }
        let (few, many) = (try time(cards: 200), try time(cards: 20_000))
        #expect(many < 4 * few, "\(few) ns beside few, \(many) ns beside many")
    }

    private func processorTime() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
