import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What was looked at while a request is under way counts only as long as nothing else has happened.
@Suite struct TurnAheadTests {
    private static let one = ClaimLimits(maxChanges: 1)

    /// What happens between the look ahead and the answer.
    enum Meanwhile: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case nothing, edit, editTwice, delete, deleteOfTheOneUnderWay, another, reference, unit, rollback
        case otherProcess, otherProcessDeletes, cancel, cancelFirst, cancelUnderWay, page, pageOfTheOneUnderWay
        case parentDeleted, draft, lease, newEpoch, otherLimits, schedule, checkpoint

        var testDescription: String { rawValue }

        func happens(to fixture: Fixture, _ claim: Claim) async throws {
            switch self {
            case .nothing, .otherLimits, .schedule: break
            case .edit: try fixture.sql("UPDATE card SET name = 'later' WHERE id = 'n2'")
            case .editTwice:
                try fixture.sql("UPDATE card SET name = 'later' WHERE id = 'n2'")
                try fixture.sql("UPDATE card SET name = 'still later', votes = 7 WHERE id = 'n2'")
            case .delete: try fixture.sql("DELETE FROM card WHERE id = 'n2'")
            case .deleteOfTheOneUnderWay: try fixture.sql("DELETE FROM card WHERE id = 'n1'")
            case .another: try fixture.insertCard("n9")
            case .reference: try fixture.sql("UPDATE card SET idTwin = 'n3' WHERE id = 'n2'")
            case .unit:
                try await fixture.store.write(unit: true) { db in
                    try db.execute(sql: "UPDATE card SET name = 'unit' WHERE id IN ('n2', 'n3')")
                }
            case .rollback:
                try await fixture.store.database.writeWithoutTransaction { db in
                    try db.inTransaction {
                        try db.execute(sql: "DELETE FROM card")
                        return .rollback
                    }
                }
            case .otherProcess: try fixture.elsewhere("UPDATE card SET name = 'elsewhere' WHERE id = 'n2'")
            case .otherProcessDeletes: try fixture.elsewhere("DELETE FROM card WHERE id = 'n2'")
            case .cancel: _ = try await fixture.store.cancel(fixture.key("n2"))
            case .cancelFirst: _ = try await fixture.store.cancel(fixture.key("n3"))
            case .cancelUnderWay: _ = try await fixture.store.cancel(claim.keys[0])
            case .page: try await fixture.apply(record("card", "c1", 40, ["name": "server", "idList": "l1"]))
            case .pageOfTheOneUnderWay:
                try await fixture.apply(record("card", "n1", 41, ["name": "x", "idList": "l1"]))
            case .parentDeleted: try fixture.sql("DELETE FROM list WHERE id = 'l1'")
            case .draft: try await fixture.store.hold([RecordKey("card", "n2")])
            case .lease: try fixture.elsewhere("UPDATE sync_lease SET holder = 'other', generation = generation + 1")
            case .newEpoch: try fixture.sql("UPDATE sync_meta SET value = 1000 WHERE key = 'epochSequence'")
            case .checkpoint:
                try await fixture.store.database.writeWithoutTransaction { db in
                    _ = try db.checkpoint(.truncate)
                }
            }
        }

        var limits: ClaimLimits {
            self == .otherLimits ? ClaimLimits(maxChanges: 1, merges: false) : TurnAheadTests.one
        }
    }

    @Test(
        "QUE-07 NET-02 whatever happens meanwhile, a turn looked at ahead ends as one that was not",
        arguments: Meanwhile.allCases, [false, true])
    func same(_ meanwhile: Meanwhile, isUpdate: Bool) async throws {
        let ahead = try Fixture(seed: 3)
        let plain = try Fixture(seed: 3)
        var ends: [[Claim]] = []
        for fixture in [ahead, plain] {
            try await fixture.applyBoard()
            _ = try await fixture.store.lease(holder: "me", seconds: 100_000)
            try fixture.insertCard("n1")
            if isUpdate { try fixture.sql("UPDATE card SET name = 'edited' WHERE id = 'c1'") }
            for id in ["n2", "n3"] { try fixture.insertCard(id) }
            let first = try await fixture.claim(Self.one)
            var claims = [first]
            for version in Int64(20)..<30 {
                guard let last = claims.last, let key = last.keys.first else { break }
                if fixture.file === ahead.file { await fixture.store.prepare(after: last, limits: Self.one) }
                if version == 20 { try await meanwhile.happens(to: fixture, last) }
                let schedule = meanwhile == .schedule ? QueueSchedule(failures: Int(version)) : nil
                let settlement = Settlement(
                    outcomes: [Settlement.Outcome(changeID: key, kind: .applied(version))], schedule: schedule)
                claims.append(try await fixture.store.settle(settlement, claim: meanwhile.limits))
            }
            ends.append(
                claims.map { claim in
                    var claim = claim
                    claim.deviceID = ""
                    return claim
                })
        }
        #expect(ends[0] == ends[1])
        for table in SingleTurnTests.tables {
            #expect(try SingleTurnTests.dump(ahead, table) == SingleTurnTests.dump(plain, table), "\(table)")
        }
        // It came to its end, and not by a claim that was never given.
        #expect(ends[0].last?.changes.isEmpty == true)
    }

    @Test("a turn looked at ahead asks nothing at all; one that was looked at too early asks everything")
    func statements() async throws {
        let seen = Seen()
        let file = try TestFile()
        let store = try Store(
            path: file.path, schema: boardSchema(),
            configuration: StoreConfiguration(
                clock: FixedClock(),
                statementHook: { sql in
                    seen.note(sql())
                    return true
                }))
        try await store.database.write { db in
            for number in 1...4 { try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b\(number)', 'B')") }
        }
        var claim = try await store.settle(Settlement(), claim: Self.one)
        // The first turn brings the clock up to what triggers wrote, which no look does.
        claim = try await store.settle(.done(claim, 9), claim: Self.one)
        await store.prepare(after: claim, limits: Self.one)
        _ = seen.taken()
        claim = try await store.settle(.done(claim, 10), claim: Self.one)
        let ahead = seen.taken()
        #expect(claim.changes.map(\.change.record.id) == ["b3"])
        #expect(!ahead.contains { $0.hasPrefix("SELECT") } && ahead.count <= 7, "\(ahead)")

        await store.prepare(after: claim, limits: Self.one)
        try await store.database.write { db in try db.execute(sql: "UPDATE board SET name = 'C' WHERE id = 'b4'") }
        _ = seen.taken()
        claim = try await store.settle(.done(claim, 11), claim: Self.one)
        #expect(seen.taken().contains { $0.hasPrefix("SELECT") })
        #expect(claim.changes.map { $0.change.fields["name"]?.new } == ["C"])
        try await store.close()
    }

    @Test("A look ahead marks nothing: after a crash only the change under way counts as sent")
    func crash() async throws {
        let file = try TestFile()
        let before = try Fixture(file: file)
        for id in ["x", "y"] { try before.sql("INSERT INTO board (id, name) VALUES (?, 'B')", [id]) }
        let claim = try await before.claim(Self.one)
        await before.store.prepare(after: claim, limits: Self.one)
        try await before.store.close()
        let after = try Fixture(file: file)
        #expect(try await after.states() == ["create board x uncertain", "create board y pending"])
        #expect(try await after.claim(Self.one).keys == claim.keys)
    }

    @Test("the state of the file is another one after each commit, of its own and of another connection, and only then")
    func fileVersion() async throws {
        let fixture = try Fixture()
        func version() throws -> FileVersion? {
            try fixture.store.database.writeWithoutTransaction { db in
                _ = try Row.fetchOne(db, sql: "SELECT 1 FROM sync_clock")
                return FileVersion(db)
            }
        }
        let first = try #require(try version())
        #expect(try version() == first)
        try fixture.sql("INSERT INTO board (id, name) VALUES ('a', 'A')")
        let second = try #require(try version())
        #expect(second != first)
        try fixture.elsewhere("INSERT INTO board (id, name) VALUES ('b', 'B')")
        let third = try #require(try version())
        #expect(third != first && third != second)
        #expect(try version() == third)
    }

    /// The statements that ran.
    private final class Seen: @unchecked Sendable {  // the lock guards the field
        private let lock = NSLock()
        private var statements: [String] = []
        func note(_ sql: String) { lock.withLock { statements.append(sql) } }
        func taken() -> [String] {
            lock.withLock {
                defer { statements = [] }
                return statements
            }
        }
    }
}

extension Fixture {
    /// Writes as another process does, over a connection of its own.
    fileprivate func elsewhere(_ sql: String) throws {
        let other = try DatabaseQueue(path: file.path)
        try other.write { try $0.execute(sql: sql) }
        try other.close()
    }

    /// The key of a record's first change.
    fileprivate func key(_ id: String) throws -> String {
        try #require(try text("SELECT key FROM sync_change WHERE id = '\(id)' ORDER BY position LIMIT 1"))
    }
}

extension Settlement {
    fileprivate static func done(_ claim: Claim, _ version: Int64) -> Settlement {
        Settlement(outcomes: claim.changes.map { Outcome(changeID: $0.change.id, kind: .applied(version)) })
    }
}
