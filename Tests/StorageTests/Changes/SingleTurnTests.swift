import Foundation
import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// One change after another: the short way of a turn against the general one.
@Suite struct SingleTurnTests {
    static let tables = [
        "sync_change", "sync_record", "sync_clock", "sync_failure", "sync_conflict", "sync_event", "board", "list",
        "card",
    ]

    private final class Counter: @unchecked Sendable {  // the lock guards the field
        private let lock = NSLock()
        private var seen = 0
        var total: Int { lock.withLock { seen } }
        func count() { lock.withLock { seen += 1 } }
    }

    @Test("DAT-27 the empty set in place of none, of which the server keeps nothing, shows until the change leaves")
    func emptySetInPlaceOfNone() async throws {
        for limits in [ClaimLimits(), ClaimLimits(maxChanges: 1)] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("UPDATE board SET name = 'Mine'")
            try f.sql("UPDATE card SET name = 'Mine', labels = '[]' WHERE id = 'c1'")
            try f.sql("UPDATE list SET name = 'Mine'")
            #expect(try f.card("labels") == "[]")
            var claim = try await f.claim(limits)
            var version: Int64 = 4
            while !claim.changes.isEmpty {
                let outcomes = claim.keys.map { key in
                    version += 1
                    return Settlement.Outcome(changeID: key, kind: .applied(version))
                }
                claim = try await f.store.settle(Settlement(outcomes: outcomes), claim: limits)
            }
            #expect(version == 7)
            #expect(try f.card("labels") == nil)
            #expect(try f.card("name") == "Mine")
            #expect(try f.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil)
            #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") ?? 0 > 4)
        }
    }

    @Test("a plain turn asks few questions, and a special one the others")
    func statements() async throws {
        let seen = Counter()
        let file = try TestFile()
        let store = try Store(
            path: file.path, schema: boardSchema(),
            configuration: StoreConfiguration(
                clock: FixedClock(),
                statementHook: { _ in
                    seen.count()
                    return true
                }))
        try await store.database.write { db in
            for number in 1...4 { try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b\(number)', 'B')") }
        }
        let limits = ClaimLimits(maxChanges: 1)
        var claim = try await store.settle(Settlement(), claim: limits)
        func turn(_ kind: Settlement.Outcome.Kind) async throws -> Int {
            let before = seen.total
            let outcome = Settlement.Outcome(changeID: claim.changes[0].change.id, kind: kind)
            claim = try await store.settle(Settlement(outcomes: [outcome]), claim: limits)
            return seen.total - before
        }
        let plain = try await turn(.applied(version: 9, overwrote: [:], serverID: nil))
        #expect(claim.changes.map(\.change.record.id) == ["b2"])
        #expect(plain <= 13)
        let special = try await turn(.setAside(SetAsideReason(code: "invalid", message: "no"), staysUncertain: false))
        #expect(claim.changes.map(\.change.record.id) == ["b3"])
        #expect(special > plain)
        // From now on something is set aside, so needs are looked at.
        #expect(try await turn(.applied(version: 10, overwrote: [:], serverID: nil)) > plain)
        try await store.close()
    }

    @Test(
        "whatever came before, the short way, looked at ahead or not, and the general one leave the same",
        arguments: 0..<24 as Range<UInt64>)
    func same(seed: UInt64) async throws {
        var chance = SeededGenerator(seed: seed)
        let short = try Fixture(seed: 3)
        let general = try Fixture(seed: 3)
        let ahead = try Fixture(seed: 3)
        let all = [short, general, ahead]
        for fixture in all { try await fixture.applyBoard() }
        let nothing = Claim(changes: [], settled: 0, deviceID: "", summary: QueueSummary())
        var claims = [nothing, nothing, nothing]
        var version: Int64 = 10
        for step in 0..<120 {
            let number = Int.random(in: 0..<6, using: &chance)
            let limits = ClaimLimits(maxChanges: 1, merges: seed % 2 == 0)
            let isLate = Bool.random(using: &chance)
            if !isLate { await ahead.store.prepare(after: claims[2], limits: limits) }
            if Int.random(in: 0..<3, using: &chance) > 0 {
                let sql = Self.edit(step, number, &chance)
                for fixture in all { try fixture.sql(sql) }
            }
            if isLate { await ahead.store.prepare(after: claims[2], limits: limits) }
            version += 1
            let kind = Self.verdict(claims[0].changes.first, version, &chance)
            let page = Int.random(in: 0..<12, using: &chance) == 0
            let told = record("card", "c\(number)", version, ["name": .string("server \(step)"), "idList": "l1"])
            for (index, fixture) in all.enumerated() {
                if page { try await fixture.apply(told) }
                let outcomes = claims[index].changes.map {
                    Settlement.Outcome(changeID: $0.change.id, kind: kind)
                }
                // A settlement that brings a schedule goes the general way.
                let settlement = Settlement(outcomes: outcomes, schedule: index == 1 ? QueueSchedule() : nil)
                claims[index] = try await fixture.store.settle(settlement, claim: limits)
            }
            // Only the devices' own ids differ.
            for index in 1...2 { claims[index].deviceID = claims[0].deviceID }
            #expect(claims[0] == claims[1] && claims[0] == claims[2], "step \(step)")
        }
        for table in Self.tables {
            let rows = try Self.dump(general, table)
            #expect(try Self.dump(short, table) == rows && Self.dump(ahead, table) == rows, "\(table)")
        }
        #expect(
            try short.text("SELECT value FROM sync_meta WHERE key = 'highest'")
                == general.text("SELECT value FROM sync_meta WHERE key = 'highest'"))
    }

    private static func edit(_ step: Int, _ number: Int, _ chance: inout SeededGenerator) -> String {
        switch Int.random(in: 0..<8, using: &chance) {
        case 0...2:
            "INSERT INTO card (id, name, idList, due) VALUES ('n\(step)', 'N', 'l1', '2026-01-0\(number + 1)')"
        case 3...5: "UPDATE card SET name = 's\(step)' WHERE id IN ('c\(number)', 'n\(step - number)')"
        case 6: "UPDATE list SET pos = \(step) WHERE id = 'l1'"
        default: "DELETE FROM card WHERE id = 'n\(step - number * 3)'"
        }
    }

    private static func verdict(
        _ queued: QueuedChange?, _ version: Int64, _ chance: inout SeededGenerator
    ) -> Settlement.Outcome.Kind {
        guard let queued else { return .unanswered(attempts: 0) }
        switch Int.random(in: 0..<40, using: &chance) {
        case 0: return .unanswered(attempts: queued.attempts + 1)
        case 1: return .applied(version: nil, overwrote: [:], serverID: nil)
        case 2: return .applied(version: version, overwrote: ["name": "theirs"], serverID: nil)
        case 3: return .applied(version: 1, overwrote: [:], serverID: nil)
        case 4 where version > 60:
            return .setAside(SetAsideReason(code: "invalid", message: "no"), staysUncertain: false)
        case 5 where version > 60:
            return .merged(record(queued.change.record.entity, queued.change.record.id, version, ["name": "merged"]))
        default: return .applied(version: version, overwrote: [:], serverID: nil)
        }
    }

    static func dump(_ fixture: Fixture, _ table: String) throws -> [String] {
        try fixture.rows("SELECT * FROM \(table) ORDER BY 1, 2").map(\.description)
    }
}
