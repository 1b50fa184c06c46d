import Foundation
import SyncCore
import SyncTesting
import Testing

@Suite("Calculations, clocks, chance, ids, handlers and models keep their contracts")
struct PlainContractTests {
    @Test("the plain default of deltas", arguments: DeltaCalculationContract.rules.indices)
    func deltas(rule: Int) async throws { try await DeltaCalculationContract.rules[rule].check(LastWriterDeltas()) }

    @Test("no rule passes whatever a calculation does")
    func brokenDeltas() async {
        let found = await broken(DeltaCalculationContract.rules, by: BrokenDeltas.Bug.allCases) {
            BrokenDeltas(bug: $0)
        }
        #expect(found == DeltaCalculationContract.rules.map(\.name))
    }

    @Test("clocks", arguments: WallClockContract.rules.indices)
    func clocks(rule: Int) async throws {
        for clock in [SystemWallClock(), ManualWallClock()] as [any WallClock] {
            try await WallClockContract.rules[rule].check(clock)
        }
    }

    @Test("chance", arguments: RandomnessContract.rules.indices)
    func chance(rule: Int) async throws {
        for randomness in [SystemRandomness(), SeededRandomness(seed: 1)] as [any Randomness] {
            try await RandomnessContract.rules[rule].check(randomness)
        }
    }

    @Test("ids, of a clock that goes and of one that stands", arguments: IDSourceContract.rules.indices)
    func ids(rule: Int) async throws {
        let standing = UUIDv7Source(clock: ManualWallClock(), randomness: SeededRandomness(seed: 1))
        for source in [UUIDv7Source(), standing, SeededIDs(seed: 1)] as [any IDSource] {
            try await IDSourceContract.rules[rule].check(source)
        }
    }

    @Test("no rule passes whatever a clock, chance or a source of ids does")
    func brokenAmbients() async {
        let clocks = await broken(WallClockContract.rules, by: [BrokenAmbient.seconds, .leaping]) { $0 }
        #expect(clocks == WallClockContract.rules.map(\.name))
        let chances = await broken(RandomnessContract.rules, by: [BrokenAmbient.seconds, .halfRange]) { $0 }
        #expect(chances == RandomnessContract.rules.map(\.name))
        let ids = await broken(IDSourceContract.rules, by: [BrokenAmbient.seconds, .leaping]) { $0 }
        #expect(ids == IDSourceContract.rules.map(\.name))
    }

    private static let card = EntitySchema("card", fields: [.text("name")])
    private static let change = Change(
        id: "key-1", sequence: 1, record: RecordKey("card", "c"), operation: .update,
        stamp: Stamp(milliseconds: 1, counter: 0), fields: ["name": FieldDelta(old: "a", new: "b")])

    private static func handling(_ front: (ScriptedHandler) -> any Syncable) -> SyncableSubject {
        let handler = ScriptedHandler(card)
        handler.put(FoundChange(record: change.record, operation: .update, fields: change.fields))
        handler.put(FoundChange(record: RecordKey("card", "d"), operation: .delete, fields: [:]))
        return SyncableSubject(
            handler: front(handler), changes: [change],
            records: [ServerRecord(key: change.record, version: 2, fields: ["name": "b"])])
    }

    @Test("a scripted handler, and a schema alone", arguments: SyncableContract.rules.indices)
    func handlers(rule: Int) async throws {
        try await SyncableContract.rules[rule].check(Self.handling { $0 })
        try await SyncableContract.rules[rule].check(Self.handling { $0.schema })
    }

    @Test("no rule passes whatever a handler does")
    func brokenHandlers() async {
        let found = await broken(SyncableContract.rules, by: BrokenHandler.Bug.allCases) { bug in
            Self.handling { BrokenHandler(inner: $0, bug: bug) }
        }
        #expect(found == SyncableContract.rules.map(\.name))
    }

    @Test("A handler keeps what it was told, changes what goes out, and fails where it is told to")
    func handler() async throws {
        let handler = ScriptedHandler(Self.card) { change in
            var change = change
            change.fields["name"]?.new = "out"
            return change
        }
        #expect(try handler.buildPayload(Self.change).fields["name"]?.new == "out")
        let record = ServerRecord(key: Self.change.record, version: 2)
        try await handler.applyResponse(record)
        try await handler.markSynced([Self.change])
        #expect(handler.applied == [record] && handler.synced == [Self.change])
        let failure = StoreFailure(kind: .io, message: "the disk is gone")
        for step in ScriptedHandler.Step.allCases { handler.fail(step, failure) }
        await #expect(throws: failure) { try await handler.collectDirty() }
        #expect(throws: failure) { try handler.buildPayload(Self.change) }
        await #expect(throws: failure) { try await handler.applyResponse(record) }
        await #expect(throws: failure) { try await handler.markSynced([]) }
        handler.fail(.applyResponse, nil)
        try await handler.applyResponse(record)
        #expect(handler.applied.count == 2)
    }

    @Test("a model of two fields", arguments: ModelContract<Card>.rules.indices)
    func models(rule: Int) async throws {
        try await ModelContract<Card>.rules[rule].check([
            Card(id: "a", name: "A", votes: nil), Card(id: "b", name: "B", votes: 3),
        ])
    }

    @Test("no rule passes whatever a model does")
    func brokenModels() async {
        let found = await broken(ModelContract<BrokenCard>.rules, by: [0, 1]) { _ in
            [BrokenCard(id: "a b", name: "A"), BrokenCard(id: "b", name: "B")]
        }
        #expect(found == ModelContract<BrokenCard>.rules.map(\.name))
    }
}

private struct Card: Model {
    static let schema = EntitySchema("card", fields: [.text("name"), .integer("votes")])
    var id: String
    var name: String
    var votes: Int64?

    var fields: [String: FieldValue] { ["name": .string(name), "votes": votes.map { .int($0) } ?? .null] }

    init(id: String, name: String, votes: Int64?) { (self.id, self.name, self.votes) = (id, name, votes) }

    init(id: String, fields: [String: FieldValue]) throws {
        guard case .string(let name)? = fields["name"] else { throw StoreFailure(kind: .invalid, message: "no name") }
        self.init(id: id, name: name, votes: fields["votes"].flatMap { if case .int(let n) = $0 { n } else { nil } })
    }
}

/// A model that forgets what it is made of, and has an id with a space.
private struct BrokenCard: Model {
    static let schema = EntitySchema("card", fields: [.text("name")])
    var id: String
    var name: String
    var fields: [String: FieldValue] { ["name": .string(name)] }
    init(id: String, name: String) { (self.id, self.name) = (id, name) }
    init(id: String, fields: [String: FieldValue]) throws { self.init(id: id, name: "forgotten") }
}

/// A calculation with one mistake.
private final class BrokenDeltas: DeltaCalculation, @unchecked Sendable {
    // Sendable: `count` is used under `lock` alone.
    enum Bug: CaseIterable { case keepsBase, overwrites, composesNothing, alwaysChecks, saysAll, isRandom }
    let bug: Bug
    private let plain = LastWriterDeltas()
    private let lock = NSLock()
    private var count: Int64 = 0
    init(bug: Bug) { self.bug = bug }

    func compose(_ first: FieldDelta, _ second: FieldDelta) -> FieldDelta {
        bug == .composesNothing ? second : plain.compose(first, second)
    }

    func rebase(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue {
        switch bug {
        case .keepsBase: base
        case .overwrites: delta.new
        case .isRandom:
            .int(
                lock.withLock {
                    count += 1
                    return count
                })
        default: plain.rebase(delta, onto: base)
        }
    }

    func successor(of change: Change, over record: ServerRecord, conflicts: Int) -> [String: FieldDelta]? {
        switch bug {
        case .saysAll: change.fields
        case .alwaysChecks: plain.successor(of: change, over: record, conflicts: 0)
        default: plain.successor(of: change, over: record, conflicts: conflicts)
        }
    }
}

/// A clock, chance and a source of ids with one mistake.
private final class BrokenAmbient: WallClock, Randomness, IDSource, @unchecked Sendable {
    // Sendable: `count` is used under `lock` alone.
    static var seconds: BrokenAmbient { BrokenAmbient(start: 1_795_248_000, step: 0) }
    static var leaping: BrokenAmbient { BrokenAmbient(start: ManualWallClock.usualStart, step: 60_000) }
    static var halfRange: BrokenAmbient { BrokenAmbient(start: 1 << 62, step: 1) }
    private let lock = NSLock()
    private var time: Int64
    private let step: Int64

    init(start: Int64, step: Int64) { (time, self.step) = (start, step) }

    var nowMilliseconds: Int64 {
        lock.withLock {
            time += step
            return time
        }
    }
    func next() -> UInt64 { UInt64(nowMilliseconds) }
    func makeID() -> String { step == 0 ? "same" : "an id \(nowMilliseconds)" }
}

/// A handler with one mistake.
private final class BrokenHandler: Syncable, @unchecked Sendable {
    // Sendable: `count` is used by one task.
    enum Bug: CaseIterable { case changesSchema, findsOthers, newKeys, refusesEcho, findsForEver }
    let inner: ScriptedHandler
    let bug: Bug
    private let lock = NSLock()
    private var count = 0

    init(inner: ScriptedHandler, bug: Bug) {
        self.inner = inner
        self.bug = bug
    }

    private func next() -> Int {
        lock.withLock {
            count += 1
            return count
        }
    }

    var schema: EntitySchema { bug == .changesSchema ? EntitySchema("card\(next())", fields: []) : inner.schema }

    func collectDirty() async throws -> [FoundChange] {
        let found = try await inner.collectDirty()
        return bug == .findsOthers
            ? found + [FoundChange(record: RecordKey("board", "b"), operation: .create, fields: [:])] : found
    }
    func buildPayload(_ change: Change) throws -> Change {
        var change = change
        if bug == .newKeys { change.id = "key \(next())" }
        return change
    }
    func applyResponse(_ record: ServerRecord) async throws {
        if bug == .refusesEcho, next() > 1 { throw StoreFailure(kind: .invalid, message: "it is here already") }
    }
    func markSynced(_ changes: [Change]) async throws {
        if bug != .findsForEver { try await inner.markSynced(changes) }
    }
}
