import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What leaves a device against what its app wrote.
@Suite struct SentCheckTests {
    private let card = RecordKey("card", "c")
    private func check() throws -> SentCheck { SentCheck(schema: try Schema(SimulationSchema.entities)) }

    @Test("I1 a change that leaves a value out, changes it, or says it under another rule is found")
    func values() throws {
        let sent = change(
            1, of: card,
            fields: [
                "name": FieldDelta(old: "A", new: "B"), "votes": FieldDelta(old: 3, new: 5, rule: .sum),
                "desc": FieldDelta(old: "X", new: "Y", rule: .check),
            ])
        let written = entry(
            sent, ["name": "B", "votes": 4, "desc": "Y"], over: ["name": "A", "votes": 2, "desc": "X"])
        let check = try check()
        #expect(check.differences(written, sent).isEmpty)
        func found(_ edit: (inout Change) -> Void) -> Int {
            var other = sent
            edit(&other)
            return check.differences(written, other).count
        }
        #expect(found { $0.fields["name"] = nil } == 1)
        #expect(found { $0.fields["name"]?.new = "C" } == 1)
        #expect(found { $0.fields["votes"]?.new = 6 } == 1)
        #expect(found { $0.fields["votes"]?.rule = .lastWriter } == 1)
        #expect(found { $0.fields["desc"]?.rule = .lastWriter } == 1)
        #expect(found { $0.operation = .delete } == 1)
        var unit = written
        unit.unit = [card]
        #expect(check.differences(unit, sent) == ["not as a member of its unit"])
        #expect(check.differences(unit, sent, isCircular: true).isEmpty)
    }

    @Test("I1 a change that took others in says what was written last of each field, and adds what was added")
    func takenIn() throws {
        let written = [
            entry(change(1, of: card), ["name": "B", "due": "D", "votes": 4], over: ["name": "A", "votes": 3]),
            entry(change(2, of: card), ["name": "C"], over: ["name": "B"]),
        ]
        let check = try check()
        func found(_ edit: (inout Change) -> Void) -> Int {
            var sent = change(
                2, of: card,
                fields: [
                    "name": FieldDelta(old: "A", new: "C"), "due": FieldDelta(old: nil, new: "D"),
                    "votes": FieldDelta(old: 6, new: 7, rule: .sum),
                ])
            edit(&sent)
            return check.losses(written, sent).count
        }
        #expect(found { _ in } == 0)
        #expect(found { $0.fields["due"] = nil } == 1)
        #expect(found { $0.fields["due"]?.new = "E" } == 1)
        #expect(found { $0.fields["name"]?.new = "B" } == 1)
        #expect(found { $0.fields["votes"]?.new = 8 } == 1)
        // What was written goes with its delete.
        #expect(found { ($0.operation, $0.fields) = (.delete, [:]) } == 0)
    }

    @Test("Seed 351219: one name of a record over its other is no change, and another record's is")
    func otherName() throws {
        let check = try check()
        func found(_ board: FieldValue, over old: FieldValue) -> [Int] {
            let written = entry(
                change(1, of: card), ["idBoardSeen": board, "name": "B"], over: ["idBoardSeen": old, "name": "A"])
            let sent = change(1, of: card, fields: ["name": FieldDelta(old: "A", new: "B")])
            return [check.differences(written, sent).count, check.losses([written], sent).count]
        }
        #expect(found("b", over: "b") == [0, 0])
        #expect(found("b", over: "a") == [1, 1])
    }

    @Test("Seed 5096: a create that was merged names another parent only where the one it named was given up")
    func parentGivenUp() throws {
        let written = [
            entry(change(1, .create, of: card), ["name": "B", "idList": "gone"]),
            entry(change(2, of: card), ["name": "C"], over: ["name": "B"]),
        ]
        let sent = change(
            2, .create, of: card,
            fields: ["name": FieldDelta(old: nil, new: "C"), "idList": FieldDelta(old: nil, new: "there")])
        let check = try check()
        #expect(check.losses(written, sent).count == 1)
        #expect(check.losses(written, sent) { $0 == RecordKey("list", "gone") }.isEmpty)
        #expect(check.losses(written, sent) { $0 == RecordKey("list", "there") }.count == 1)
    }

    @Test("I1 what the queue merged is looked for in what was sent of who took it in, once")
    func merged() throws {
        let bench = try Bench()
        try bench.write("INSERT INTO board (id, name) VALUES ('b', 'A')", ["name": "A"])
        let edit = try bench.write("UPDATE board SET closed = 1", ["closed": true])
        let last = try bench.write("UPDATE board SET name = 'C'", ["name": "C"], over: ["name": "A"])
        #expect(try bench.look().isEmpty)
        try bench.sql("DELETE FROM sync_change WHERE key = '\(edit)'")
        #expect(try bench.look().isEmpty)
        var sent = change(3, fields: ["name": FieldDelta(old: "A", new: "C")])
        sent.id = last
        #expect(bench.ledger.takenIn(sent: { _ in nil }, wasSent: { _ in false }).isEmpty)
        let told = bench.ledger.takenIn(sent: { $0 == last ? sent : nil }, wasSent: { $0 == last })
        #expect(told.map { $0.written.map(\.key) } == [[edit, last]])
        #expect(try told.flatMap { try check().losses($0.written, $0.sent) }.count == 1)
        #expect(bench.ledger.takenIn(sent: { _ in sent }, wasSent: { _ in true }).isEmpty)
        try bench.close()
    }

    @Test("Seed 10433: of what a copy has sent under its own key nobody says whether it was merged here")
    func mergedBesideACopy() throws {
        for isCopys in [false, true] {
            let bench = try Bench()
            try bench.write("INSERT INTO board (id, name) VALUES ('b', 'A')", ["name": "A"])
            let edit = try bench.write("UPDATE board SET name = 'C'", ["name": "C"], over: ["name": "A"])
            let last = try bench.write("UPDATE board SET closed = 1", ["closed": true])
            #expect(try bench.look().isEmpty)
            try bench.sql("DELETE FROM sync_change WHERE key = '\(edit)'")
            #expect(try bench.look().isEmpty)
            var sent = change(3, fields: ["closed": FieldDelta(old: nil, new: true)])
            sent.id = last
            let told = bench.ledger.takenIn(
                sent: { $0 == last ? sent : nil }, wasSent: { $0 == last || isCopys && $0 == edit })
            #expect(told.count == (isCopys ? 0 : 1))
            try bench.close()
        }
    }

    @Test("Seed 128557: what went into a change that was sent is not looked for in what takes that one in")
    func mergedIntoWhatWasSent() throws {
        for wasSent in [false, true] {
            let bench = try Bench()
            try bench.write("INSERT INTO board (id, name) VALUES ('b', 'A')", ["name": "A"])
            let first = try bench.write("UPDATE board SET name = 'C'", ["name": "C"], over: ["name": "A"])
            let second = try bench.write("UPDATE board SET name = 'D'", ["name": "D"], over: ["name": "C"])
            let last = try bench.write("UPDATE board SET closed = 1", ["closed": true])
            #expect(try bench.look().isEmpty)
            for key in [first, second] {
                try bench.sql("DELETE FROM sync_change WHERE key = '\(key)'")
                #expect(try bench.look().isEmpty)
            }
            var sent = change(4, fields: ["closed": FieldDelta(old: nil, new: true)])
            sent.id = last
            let told = bench.ledger.takenIn(
                sent: { $0 == last || wasSent && $0 == second ? sent : nil },
                wasSent: { $0 == last || wasSent && $0 == second })
            #expect(told.map { $0.written.map(\.key) } == [wasSent ? [last] : [first, second, last]])
            try bench.close()
        }
    }

    @Test("I3 of one record in one request, and of a record and what refers to it, the order of writing is kept")
    func disorder() throws {
        let check = try check()
        let (list, below) = (RecordKey("list", "l"), RecordKey("card", "c"))
        let make = change(1, .create, of: list, fields: ["name": FieldDelta(old: nil, new: "L")])
        let child = change(2, .create, of: below, fields: ["idList": FieldDelta(old: nil, new: "l")])
        let edit = change(3, of: list, fields: ["name": FieldDelta(old: "L", new: "M")])
        var ledger = Ledger()
        for each in [make, child, edit] { ledger.add(entry(each)) }
        #expect(check.disorder([make, child, edit], ledger).isEmpty)
        #expect(check.disorder([make, edit, child], ledger).isEmpty)
        #expect(check.disorder([edit, make], ledger).count == 1)
        #expect(check.disorder([child, make], ledger).count == 1)
        // Seed 6491: what was written before the create referred to an earlier life of its record.
        let second = change(4, .create, of: list)
        ledger.add(entry(second))
        #expect(check.disorder([child, second], ledger).isEmpty)
    }

    @Test("QUE-07 I3 what names a parent that was made here before does not go before the parent's create is done")
    func premature() throws {
        let check = try check()
        let (list, below) = (RecordKey("list", "l"), RecordKey("card", "c"))
        let make = change(1, .create, of: list)
        let child = change(2, .create, of: below, fields: ["idList": FieldDelta(old: nil, new: "l")])
        func found(
            _ changes: [Change], isThere: Bool = false, wasSent: Bool = false, _ edit: (inout Ledger) -> Void = { _ in }
        ) -> Int {
            var ledger = Ledger()
            for each in [make, child] { ledger.add(entry(each)) }
            edit(&ledger)
            return check.premature(
                changes, ledger, refused: [], isThere: { _ in isThere }, wasSent: { _ in wasSent }
            ).count
        }
        #expect(found([child]) == 1)
        #expect(found([child, make]) == 1)
        #expect(found([make, child]) == 0)
        #expect(found([child], isThere: true) == 0)
        #expect(found([child], wasSent: true) == 0)
        // The app took the list back, or nobody knows of it here.
        #expect(found([child]) { $0.set(.cancelled, for: [make.id]) } == 0)
        #expect(found([child]) { $0 = Ledger() } == 0)
    }

    @Test("Seed 27741: what a page told of was made, though nobody heard the verdict of its create")
    func toldOf() {
        let record = Record(executor: SeededExecutor(seed: 1), keepsLines: false, onLine: nil)
        let (live, dead) = (RecordKey("list", "l"), RecordKey("card", "c"))
        record.told([ServerRecord(key: live, version: 1), ServerRecord(key: dead, version: 2, presence: .deleted)])
        #expect(record.created == [live])
    }
}
