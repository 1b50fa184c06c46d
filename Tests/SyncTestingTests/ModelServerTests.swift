import SyncCore
import SyncTesting
import Testing

/// A server, and devices that speak to it.
private struct Bench {
    static let entities = [
        EntitySchema("board", fields: [.text("name"), .json("tags", rule: .union)]),
        EntitySchema(
            "card",
            fields: [
                .parent("idBoard", "board"), .text("name"), .text("desc", rule: .check),
                .integer("votes", rule: .sum), .reference("idSeen", "board"),
            ]),
    ]
    let clock = ManualWallClock()
    let server: ModelServer

    init() throws { server = ModelServer(schema: try Schema(Self.entities), clock: clock) }

    func send(
        _ changes: [Change], as device: String = "a", from checkpoint: Int64 = 0, settled: Int64? = nil,
        strict: Bool = false
    ) throws -> ExchangeAnswer {
        try server.answer(
            ExchangeRequest(
                cycleID: "c", deviceID: device, lastSyncVersion: checkpoint, settled: settled, isStrict: strict,
                changes: changes))
    }

    func verdict(_ change: Change, as device: String = "a") throws -> Verdict {
        try #require(try send([change], as: device).results.first).verdict
    }

    func fields(_ entity: String, _ id: String) -> [String: FieldValue]? {
        server.liveRecords.first { $0.key == RecordKey(entity, id) }?.fields
    }

    /// A change at so many milliseconds after the usual start.
    func change(
        _ operation: SyncCore.Operation, _ entity: String, _ id: String, _ sequence: Int64, at milliseconds: Int64 = 0,
        _ fields: [String: FieldDelta] = [:], key: String? = nil, unit: String? = nil
    ) -> Change {
        Change(
            id: key ?? "k-\(sequence)-\(milliseconds)", sequence: sequence, record: RecordKey(entity, id),
            operation: operation,
            stamp: Stamp(milliseconds: UInt64(ManualWallClock.usualStart + milliseconds), counter: 0), fields: fields,
            unit: unit)
    }
}

private func set(_ value: FieldValue, old: FieldValue? = nil, _ rule: MergeRule = .lastWriter) -> FieldDelta {
    FieldDelta(old: old, new: value, rule: rule)
}

@Suite struct ModelServerTests {
    @Test("NET-01 a repeated key gets the first answer again, and has one effect")
    func duplicate() throws {
        let bench = try Bench()
        let create = bench.change(.create, "board", "b", 1, ["name": set("A")])
        let first = try #require(try bench.send([create]).results.first)
        let again = try #require(try bench.send([create]).results.first)
        #expect(!first.isDuplicate && again.isDuplicate)
        #expect(first.verdict == again.verdict)
        #expect(bench.server.effects.count == 1)
        var other = create
        other.fields["name"] = set("B")
        guard case .rejected(let refusal) = try bench.verdict(other) else { return #expect(Bool(false)) }
        #expect(refusal.code == .keyReused)
    }

    @Test(
        "Seed 3243: a delete of what is not there is remembered, for the create that was made before it and comes later"
    )
    func deleteBeforeItsCreate() throws {
        let bench = try Bench()
        let delete = bench.change(.delete, "board", "b", 1, at: 10)
        #expect(try bench.verdict(delete) == .applied(version: nil, overwrote: [:], serverID: nil))
        #expect(try bench.send([]).page.count == 0)
        #expect(bench.server.records.isEmpty)
        // Nobody made it yet.
        let below = bench.change(.create, "card", "c", 1, ["idBoard": set("b")])
        let edit = bench.change(.update, "board", "b", 2, at: 30, ["name": set("X")])
        for (change, code) in [(below, Rejection.Code.missingReference), (edit, .notFound)] {
            guard case .rejected(let refusal) = try bench.verdict(change, as: "b") else {
                Issue.record("\(change) is done")
                continue
            }
            #expect(refusal.code == code)
        }
        let older = bench.change(.create, "board", "b", 3, at: 5, ["name": set("A")])
        guard case .merged(let record) = try bench.verdict(older, as: "b") else { return #expect(Bool(false)) }
        #expect(record.presence == .deleted && record.version == 1)
        let newer = bench.change(.create, "board", "b", 4, at: 20, ["name": set("B")])
        #expect(try bench.verdict(newer, as: "b") == .applied(version: 2, overwrote: [:], serverID: nil))
    }

    @Test("DAT-01 the greater stamp wins, in both orders of arrival", arguments: [false, true])
    func lastWriter(reversed: Bool) throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("0")])])
        let early = bench.change(.update, "board", "b", 2, at: 10, ["name": set("early", old: "0")])
        let late = bench.change(.update, "board", "b", 3, at: 20, ["name": set("late", old: "0")])
        for change in reversed ? [late, early] : [early, late] { _ = try bench.send([change]) }
        #expect(bench.fields("board", "b")?["name"] == "late")
    }

    @Test("DAT-03 equal stamps are told apart by device, in any order", arguments: [false, true])
    func tie(reversed: Bool) throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("0")])])
        let change = bench.change(.update, "board", "b", 2, at: 10, ["name": set("x")])
        var (a, z) = (change, change)
        a.fields["name"] = set("a")
        z.fields["name"] = set("z")
        if reversed {
            _ = try bench.send([z], as: "z")
            guard case .merged(let record) = try bench.verdict(a, as: "a") else { return #expect(Bool(false)) }
            #expect(record.fields["name"] == "z")
        } else {
            _ = try bench.send([a], as: "a")
            let verdict = try bench.verdict(z, as: "z")
            #expect(verdict == .applied(version: 3, overwrote: ["name": "a"], serverID: nil))
        }
        #expect(bench.fields("board", "b")?["name"] == "z")
    }

    @Test("DAT-05 a delete against an update, both orders", arguments: [false, true])
    func deleteAndUpdate(reversed: Bool) throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("0"), "tags": set(["x"])])])
        let delete = bench.change(.delete, "board", "b", 2, at: 10)
        let newer = bench.change(.update, "board", "b", 3, at: 20, ["name": set("back", old: "0")])
        for change in reversed ? [newer, delete] : [delete, newer] { _ = try bench.send([change]) }
        #expect(bench.fields("board", "b") == ["name": "back", "tags": ["x"]])
        let older = bench.change(.delete, "board", "b", 4, at: 30)
        _ = try bench.send([older])
        let late = bench.change(.update, "board", "b", 5, at: 25, ["name": set("lost", old: "0")])
        guard case .merged(let record) = try bench.verdict(late) else { return #expect(Bool(false)) }
        #expect(record.presence == .deleted)
    }

    @Test("A child is dead while its parent is, and comes back with it")
    func childOfDeadParent() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")]),
            bench.change(.create, "card", "c", 2, ["idBoard": set("b"), "name": set("C")]),
        ])
        let before = bench.server.head
        _ = try bench.send([bench.change(.delete, "board", "b", 3, at: 10)])
        #expect(bench.server.liveRecords.isEmpty)
        #expect(bench.server.records.allSatisfy { $0.version > before })
        _ = try bench.send([bench.change(.update, "board", "b", 4, at: 20, ["name": set("again")])])
        #expect(bench.server.liveRecords.map(\.key.id) == ["b", "c"])
        let versions = bench.server.records.map(\.version)
        #expect(Set(versions).count == versions.count)
    }

    @Test("Sums commute, and a plain write stands under what came after it")
    func sums() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")]),
            bench.change(.create, "card", "c", 2, ["idBoard": set("b"), "votes": set(10)]),
            bench.change(.update, "card", "c", 3, at: 20, ["votes": set(12, old: 10, .sum)]),
            bench.change(.update, "card", "c", 4, at: 10, ["votes": set(15, old: 10, .sum)]),
        ])
        #expect(bench.fields("card", "c")?["votes"] == 17)
    }

    @Test("A union puts in and takes out, per element the last writer wins")
    func unions() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["tags": set(["a", "b"])]),
            bench.change(.update, "board", "b", 2, at: 20, ["tags": set(["b"], old: ["a", "b"], .union)]),
            bench.change(.update, "board", "b", 3, at: 10, ["tags": set(["a", "b", "c"], old: ["a", "b"], .union)]),
        ])
        #expect(bench.fields("board", "b")?["tags"] == ["b", "c"])
    }

    @Test("Seed 20334: a union that puts nothing in and takes nothing out is no write, and brings nothing back")
    func emptyUnion() throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("B")])])
        _ = try bench.send([bench.change(.delete, "board", "b", 2, at: 10)])
        let nothing = ["tags": set(.array(["x"]), old: .array(["x"]), .union)]
        guard case .merged(let record) = try bench.verdict(bench.change(.update, "board", "b", 3, at: 20, nothing))
        else {
            return #expect(Bool(false))
        }
        #expect(record.presence == .deleted)
        let something = ["tags": set(.array(["x", "y"]), old: .array(["x"]), .union)]
        guard case .applied = try bench.verdict(bench.change(.update, "board", "b", 4, at: 30, something)) else {
            return #expect(Bool(false))
        }
    }

    @Test("a union over what is no set tells what it replaced")
    func unionOverAnother() throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["tags": set("x")])])
        let put = bench.change(.update, "board", "b", 2, at: 1, ["tags": set(["a"], .union)])
        let verdict = try bench.verdict(put)
        guard case .applied(_, let overwrote, _) = verdict else { return #expect(Bool(false), "\(verdict)") }
        #expect(overwrote == ["tags": "x"])
        #expect(bench.fields("board", "b")?["tags"] == ["a"])
    }

    @Test("a reference to a parent takes no sum and no union", arguments: [MergeRule.sum, .union])
    func references(_ rule: MergeRule) throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1), bench.change(.create, "card", "c", 2, ["idBoard": set("b")]),
        ])
        let verdict = try bench.verdict(bench.change(.update, "card", "c", 3, at: 1, ["idBoard": set(.null, rule)]))
        guard case .rejected(let rejection) = verdict else { return #expect(Bool(false), "\(verdict)") }
        #expect(rejection.code == .invalid && rejection.field == "idBoard")
    }

    @Test(
        "sums commute: a total that fits is exact, whichever of them came first", arguments: [[2, 1, 0], [2, 0, 1]])
    func totals(_ order: [Int]) throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1), bench.change(.create, "card", "c", 2, ["votes": set(0)]),
        ])
        let sums = [
            bench.change(.update, "card", "c", 3, at: 1, ["votes": set(5, old: 0, .sum)]),
            bench.change(.update, "card", "c", 4, at: 2, ["votes": set(.int(.max), old: 0, .sum)]),
            bench.change(.update, "card", "c", 5, at: 3, ["votes": set(0, old: 10, .sum)]),
        ]
        for place in order { _ = try bench.send([sums[place]]) }
        #expect(bench.fields("card", "c")?["votes"] == .int(.max - 5))
        let more = try bench.verdict(bench.change(.update, "card", "c", 6, at: 4, ["votes": set(6, old: 0, .sum)]))
        guard case .rejected(let rejection) = more else { return #expect(Bool(false), "\(more)") }
        #expect(rejection.code == .invalid && rejection.field == "votes")
    }

    @Test("check is done only over what was seen, and leaves no key otherwise")
    func check() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")]),
            bench.change(.create, "card", "c", 2, ["idBoard": set("b"), "desc": set("one")]),
        ])
        let wrong = bench.change(.update, "card", "c", 3, at: 5, ["desc": set("two", old: "zero", .check)])
        guard case .conflict(let record) = try bench.verdict(wrong) else { return #expect(Bool(false)) }
        #expect(record.fields["desc"] == "one")
        #expect(bench.server.effects.count == 2)
        var right = wrong
        right.fields["desc"] = set("two", old: "one", .check)
        #expect(try bench.verdict(right).isDecided)
        #expect(bench.fields("card", "c")?["desc"] == "two")
    }

    @Test("An edit under check from before a delete goes over a write of the delete's stamp, and brings nothing back")
    func checkBelowDelete() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")]),
            bench.change(.create, "card", "c", 2, ["idBoard": set("b"), "desc": set("one")]),
            bench.change(.update, "card", "c", 3, at: 5, ["desc": set("two")]),
            bench.change(.delete, "card", "c", 4, at: 5),
        ])
        let late = bench.change(.update, "card", "c", 5, at: 4, ["desc": set("three", old: "two", .check)])
        guard case .merged(let record) = try bench.verdict(late, as: "z") else { return #expect(Bool(false)) }
        #expect(record.presence == .deleted)
    }

    @Test("Seed 12747: a late edit under check goes over what a create after a delete cleared")
    func checkAfterCreate() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")]),
            bench.change(.create, "card", "c", 2, ["idBoard": set("b"), "desc": set("one")]),
            bench.change(.delete, "card", "c", 3, at: 5),
            bench.change(.create, "card", "c", 4, at: 6, ["idBoard": set("b")]),
        ])
        let late = bench.change(.update, "card", "c", 5, at: 4, ["desc": set("two", old: .null, .check)])
        #expect(try bench.verdict(late, as: "z").isDecided)
        #expect(bench.fields("card", "c")?["desc"] == "two")
    }

    @Test(
        "Seed 26874: of a create that is older than its record's delete and than elements put in, these are the last word"
    )
    func createBelowElements() throws {
        let bench = try Bench()
        _ = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")]),
            bench.change(.update, "board", "b", 2, at: 5, ["tags": set(["x"], old: .array([]), .union)]),
            bench.change(.delete, "board", "b", 3, at: 6),
        ])
        var create = bench.change(.create, "board", "b", 4, at: 4, ["name": set("Again"), "tags": set(["y"])])
        create.fields["name"]?.stamp = bench.change(.update, "board", "b", 5, at: 7).stamp
        guard case .merged(let record) = try bench.verdict(create, as: "z") else { return #expect(Bool(false)) }
        #expect(record.fields == ["name": "Again", "tags": ["y", "x"]])
    }

    @Test("SEC-16 a stamp from the future counts as now")
    func clamped() throws {
        let bench = try Bench()
        let create = bench.change(.create, "board", "b", 1, at: 3_600_000, ["name": set("future")])
        #expect(try #require(try bench.send([create]).results.first).isClamped)
        bench.clock.advance(milliseconds: 10)
        _ = try bench.send([bench.change(.update, "board", "b", 2, at: 5, ["name": set("now")])])
        #expect(bench.fields("board", "b")?["name"] == "now")
    }

    @Test("QUE-03 what needs a refused create is blocked by it, and nothing else is")
    func blocked() throws {
        let bench = try Bench()
        bench.server.ruling = { change in
            change.record.id == "bad" ? .reject(Rejection(code: .forbidden, message: "no")) : .decide
        }
        let results = try bench.send([
            bench.change(.create, "board", "bad", 1, ["name": set("B")], key: "k1"),
            bench.change(.create, "card", "c", 2, ["idBoard": set("bad")]),
            bench.change(.update, "board", "bad", 3, ["name": set("B2")]),
            bench.change(.create, "board", "good", 4, ["name": set("G")]),
            // What is not its parent may be missing, and may die: the reference server knows parents only.
            bench.change(.create, "card", "d", 5, ["idBoard": set("good"), "idSeen": set("bad")]),
        ]).results
        #expect(results[1].verdict == .blocked(by: "k1"))
        #expect(results[2].verdict == .blocked(by: "k1"))
        #expect(results[3].verdict.isDecided && results[4].verdict.isDecided)
    }

    @Test("Under strict order everything waits for a retry")
    func strict() throws {
        let bench = try Bench()
        bench.server.ruling = { $0.record.id == "slow" ? .retry(afterSeconds: 3) : .decide }
        let changes = [
            bench.change(.create, "board", "slow", 1, ["name": set("S")], key: "k1"),
            bench.change(.create, "board", "b", 2, ["name": set("B")]),
        ]
        #expect(try bench.send(changes, strict: true).results[1].verdict == .blocked(by: "k1"))
        #expect(try bench.send(changes, strict: false).results[1].verdict.isDecided)
    }

    @Test("DAT-28 a unit is done whole or not at all")
    func unit() throws {
        let bench = try Bench()
        bench.server.ruling = { $0.record.id == "bad" ? .reject(Rejection(code: .invalid, message: "no")) : .decide }
        let results = try bench.send([
            bench.change(.create, "board", "b", 1, ["name": set("B")], unit: "u"),
            bench.change(.create, "board", "bad", 2, ["name": set("B")], unit: "u"),
        ]).results
        guard case .rejected(let first) = results[0].verdict, case .rejected(let second) = results[1].verdict else {
            return #expect(Bool(false))
        }
        #expect(first.code == .transaction && second.code == .invalid)
        #expect(bench.server.records.isEmpty)
    }

    @Test("Seed 273: a member that was refused before refuses the others of its unit, whatever they are tried with")
    func unitWithDecided() throws {
        let bench = try Bench()
        bench.server.ruling = { $0.record.id == "bad" ? .reject(Rejection(code: .invalid, message: "no")) : .decide }
        let refused = bench.change(.create, "board", "b", 1, ["name": set("B")], unit: "u")
        _ = try bench.send([refused, bench.change(.create, "board", "bad", 2, ["name": set("B")], unit: "u")])
        bench.server.ruling = { _ in .decide }
        let successor = bench.change(.create, "board", "bad", 3, ["name": set("B")], unit: "u")
        let results = try bench.send([refused, successor]).results
        #expect(results.map(\.isDuplicate) == [true, false])
        for result in results {
            guard case .rejected(let rejection) = result.verdict else { return #expect(Bool(false)) }
            #expect(rejection.code == .transaction)
        }
        #expect(bench.server.records.isEmpty)
        // And one that was done is not done again beside a new one.
        let done = bench.change(.update, "board", "c", 5, ["tags": set(["x"], old: [], .union)], unit: "v")
        _ = try bench.send([bench.change(.create, "board", "c", 4, ["name": set("C")])])
        _ = try bench.send([done])
        let again = try bench.send([done, bench.change(.update, "board", "c", 6, ["name": set("D")], unit: "v")])
            .results
        #expect(again.map(\.isDuplicate) == [true, false])
        #expect(bench.server.effects.filter { $0.change.id == done.id }.count == 1)
        #expect(bench.fields("board", "c") == ["name": "D", "tags": ["x"]])
    }

    @Test(
        "Decision 90: what a create above a delete clears follows from the set, in any order", arguments: [false, true])
    func createBetweenDeletes(reversed: Bool) throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("0"), "tags": set(["x"])])])
        _ = try bench.send([bench.change(.delete, "board", "b", 2, at: 10)])
        let create = bench.change(.create, "board", "b", 3, at: 20, ["name": set("1")])
        let delete = bench.change(.delete, "board", "b", 4, at: 30)
        for change in reversed ? [delete, create] : [create, delete] { _ = try bench.send([change]) }
        _ = try bench.send([bench.change(.update, "board", "b", 5, at: 40, ["name": set("2", old: "1")])])
        #expect(bench.fields("board", "b")?["name"] == "2")
        #expect(bench.fields("board", "b")?["tags"] ?? .null == .null)
    }

    @Test("Decision 90: a create of what is there is a write that an older delete finds")
    func sameCreate() throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("A")])])
        let same = try bench.verdict(bench.change(.create, "board", "b", 2, at: 20, ["name": set("A")]))
        #expect(same == .applied(version: 1, overwrote: [:], serverID: nil))
        _ = try bench.send([bench.change(.delete, "board", "b", 3, at: 10)])
        #expect(bench.fields("board", "b") == ["name": "A"])
    }

    @Test("A create of what is there, dead only through its parent, is told that it does not show")
    func sameCreateUnderDeadParent() throws {
        let bench = try Bench()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("A")])])
        let card = ["name": set("C"), "idBoard": set("b")]
        _ = try bench.send([bench.change(.create, "card", "c", 2, card)])
        _ = try bench.send([bench.change(.delete, "board", "b", 3, at: 10)])
        guard case .merged(let record) = try bench.verdict(bench.change(.create, "card", "c", 4, at: 20, card)) else {
            return #expect(Bool(false))
        }
        #expect(record.presence == .deleted)
    }

    @Test("IDS-10 a settled outcome is forgotten, and its repetition is `expired`, not done again")
    func expired() throws {
        let bench = try Bench()
        let create = bench.change(.create, "board", "b", 1, ["name": set("B")])
        _ = try bench.send([create])
        _ = try bench.send([], settled: 1)
        guard case .rejected(let refusal) = try bench.verdict(create) else { return #expect(Bool(false)) }
        #expect(refusal.code == .expired)
        #expect(bench.server.effects.count == 1)
    }

    @Test("DL-04 pages come in version order, each record once, up to the end")
    func pages() throws {
        let bench = try Bench()
        _ = try bench.send((1...25).map { bench.change(.create, "board", "b\($0)", $0, ["name": set("B")]) })
        var (checkpoint, seen, hasMore) = (Int64(0), [Int64](), true)
        while hasMore {
            let answer = try bench.server.answer(
                ExchangeRequest(cycleID: "c", deviceID: "z", lastSyncVersion: checkpoint, limit: 10))
            seen += try answer.page.next(maxRecords: 100, maxBytes: 1 << 20).map(\.version)
            (checkpoint, hasMore) = (answer.currentSyncVersion, answer.hasMore)
        }
        #expect(seen == Array(1...25))
    }

    @Test("DL-09 a restored backup has another epoch, and says so")
    func restored() throws {
        let bench = try Bench()
        let backup = bench.server.backup()
        _ = try bench.send([bench.change(.create, "board", "b", 1, ["name": set("B")])])
        let epoch = bench.server.epoch
        bench.server.restore(backup)
        #expect(bench.server.records.isEmpty)
        #expect {
            try bench.server.answer(ExchangeRequest(cycleID: "c", deviceID: "a", epoch: epoch))
        } throws: { error in
            (error as? ExchangeFailure)?.code == "epochChanged" && (error as? ExchangeFailure)?.epoch != epoch
        }
    }
}
