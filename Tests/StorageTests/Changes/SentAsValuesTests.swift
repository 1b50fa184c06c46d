import GRDB
@testable import Storage
import SyncCore
import Testing

/// Changes that go out as values, which replace the server's (Decision 494).
@Suite struct SentAsValuesTests {
    private static let values = ClaimLimits(maxChanges: 1, sendsValues: true)

    private func fixture(_ edit: String) async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET \(edit) WHERE id = 'c1'")
        return f
    }

    @Test(
        "what was worked out from a value that the server has no more says so, and is made anew from the one that it has",
        arguments: [
            ("votes = 5", "votes", 14), ("desc = 'mine'", "desc", "mine"),
            ("labels = '[\"a\"]'", "labels", ["b", "a"]),
        ]
            as [(String, String, FieldValue)])
    func movedOn(edit: String, field: String, expected: FieldValue) async throws {
        let f = try await fixture(edit)
        let now: [String: FieldValue] = [
            "name": "Card", "idList": "l1", "pos": 1.0, "votes": 10, "desc": "theirs", "labels": ["b"],
        ]
        try await f.apply(record("card", "c1", 7, now))
        let first = try #require(try await f.claim(Self.values).changes.first).change
        #expect(first.baseVersion == 6)
        let delta = try #require(first.fields[field])
        let merged = LastWriterDeltas().rebase(delta, onto: now[field] ?? .null)
        let theirs = record("card", "c1", 7, now)
        try await f.settle(
            (
                first.id,
                .conflict(theirs, successor: [field: FieldDelta(old: now[field], new: merged, rule: delta.rule)])
            ))
        let next = try #require(try await f.claim(Self.values).changes.first).change
        #expect(next.baseVersion == 7)
        #expect(next.fields[field]?.new.isSame(as: expected) == true)
    }

    @Test(
        "Seed 170037 with `--rest --handlers --damage`: of a record of which nothing is known here, what replaces a refused edit is said over what was told"
    )
    func unknown() async throws {
        let f = try await fixture("votes = 5")
        // As a damaged file leaves it: the edit is saved, the row and what was known of the record are not.
        try await f.store.database.write { db in
            try RowWriter.applying(db) { try db.execute(sql: "DELETE FROM card WHERE id = 'c1'") }
            try db.execute(sql: "DELETE FROM sync_record WHERE id = 'c1'")
        }
        let first = try #require(try await f.claim(Self.values).changes.first).change
        #expect(first.baseVersion == 0)
        let theirs = record("card", "c1", 7, ["name": "Card", "idList": "l1", "votes": 10])
        let successor = ["votes": FieldDelta(old: 10, new: 14, rule: .sum)]
        try await f.settle((first.id, .conflict(theirs, successor: successor)))
        let next = try #require(try await f.claim(Self.values).changes.first).change
        #expect(next.baseVersion == 7)
        try await f.settle((next.id, .applied(8)))
        try await f.apply(record("card", "c1", 8, ["name": "Card", "idList": "l1", "votes": 14]))
        #expect(try f.int("SELECT votes FROM card WHERE id = 'c1'") == 14)
        try await f.drain(from: 8)
    }

    @Test("what was worked out from what the server has is said over its version, and so is what replaces it")
    func stays() async throws {
        for edit in ["votes = 5", "name = 'Mine'"] {
            let f = try await fixture(edit)
            try await f.apply(
                record("card", "c1", 7, ["name": "Other", "idList": "l1", "pos": 2.0, "votes": 1, "desc": "text"]))
            #expect(try await f.claim(Self.values).changes.map(\.change.baseVersion) == [7])
        }
    }

    @Test("two edits that go as one are said over what the first was worked out from")
    func merged() async throws {
        let f = try await fixture("votes = 5")
        try f.sql("UPDATE card SET votes = 6 WHERE id = 'c1'")
        let claim = try await f.claim(Self.values)
        #expect(claim.changes.map(\.change.baseVersion) == [3])
        #expect(claim.changes.first?.change.fields["votes"]?.old == 1)
    }

    @Test(
        "what may have been done or not is nothing to work out from; what was refused is taken out of what follows it",
        arguments: [false, true], [RefusalRule.revert, .keep])
    func behindSetAside(isUncertain: Bool, refusal: RefusalRule) async throws {
        let f = try Fixture(boardSchema(refusal: refusal))
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = 5 WHERE id = 'c1'")
        let limits = ClaimLimits(maxChanges: 1, merges: false, sendsValues: true)
        let first = try await f.claim(limits)
        try f.sql("UPDATE card SET votes = 7 WHERE id = 'c1'")
        let reason = SetAsideReason(code: "tooLarge", message: "no")
        try await f.settle((first.keys[0], .setAside(reason, staysUncertain: isUncertain)))
        let second = try #require(try await f.claim(limits).changes.first).change
        #expect(second.baseVersion == (isUncertain ? 2 : 3))
        #expect(second.fields["votes"]?.new == (isUncertain ? 7 : 3))
    }

    @Test("differences are said over the version that is held, whatever came")
    func differences() async throws {
        let f = try await fixture("votes = 5")
        try await f.apply(record("card", "c1", 7, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 10]))
        #expect(try await f.claim(ClaimLimits(maxChanges: 1)).changes.map(\.change.baseVersion) == [7])
    }

    @Test("where no version is known, one is said that no record has")
    func unknownVersion() async throws {
        let f = try await fixture("votes = 5")
        try await f.store.beginFullPass(epoch: "e-2")
        #expect(try await f.claim(Self.values).changes.map(\.change.baseVersion) == [0])
        let plain = try await fixture("name = 'Mine'")
        try await plain.store.beginFullPass(epoch: "e-2")
        #expect(try await plain.claim(Self.values).changes.map(\.change.baseVersion) == [nil])
    }

    @Test("in the turn of one change after another, too")
    func nextTurn() async throws {
        let f = try await fixture("name = 'Mine'")
        try f.sql("UPDATE board SET name = 'Mine'")
        try f.sql("UPDATE card SET votes = 5 WHERE id = 'c1'")
        let limits = ClaimLimits(maxChanges: 1, merges: false, sendsValues: true)
        var claim = try await f.claim(limits)
        try await f.apply(
            record("card", "c1", 7, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 10, "desc": "text"]))
        var bases: [Int64?] = []
        for version in Int64(8)...9 {
            bases += claim.changes.map(\.change.baseVersion)
            let outcome = Settlement.Outcome(changeID: claim.keys[0], kind: .applied(version))
            claim = try await f.store.settle(Settlement(outcomes: [outcome]), claim: limits)
        }
        #expect(bases == [3, 1])
        #expect(claim.changes.count == 1)
        #expect(claim.changes.first?.change.baseVersion == 6)
    }
}
