import GRDB
@testable import Storage
import SyncCore
import Testing

extension Fixture {
    /// Claims what goes next.
    func claim(_ limits: ClaimLimits = ClaimLimits()) async throws -> Claim {
        try await store.settle(Settlement(), claim: limits)
    }

    /// Settles one outcome for each key, without a claim.
    @discardableResult
    func settle(_ outcomes: (String, Settlement.Outcome.Kind)...) async throws -> Claim {
        try await store.settle(
            Settlement(outcomes: outcomes.map { Settlement.Outcome(changeID: $0.0, kind: $0.1) }), claim: nil)
    }

    /// What a card's row shows in a column, as text; `nil` for null and for no row.
    func card(_ column: String, _ id: String = "c1") throws -> String? {
        try store.database.read { db in
            try String.fetchOne(db, sql: "SELECT CAST(\(column) AS TEXT) FROM card WHERE id = ?", arguments: [id])
        }
    }

    func hasCard(_ id: String = "c1") throws -> Bool {
        try int("SELECT count(*) FROM card WHERE id = '\(id)'") == 1
    }

    /// The queue's places and states: `create card c1 pending`.
    func states() async throws -> [String] {
        try await store.queued().map {
            "\($0.change.operation.rawValue) \($0.change.record) \($0.state.rawValue)"
        }
    }

    /// Everything waiting leaves as sent, at rising versions; what a fixture leaves behind is nothing.
    func drain(from version: Int64 = 1_000) async throws {
        var version = version
        while true {
            let claim = try await claim()
            guard !claim.changes.isEmpty else { break }
            let outcomes = claim.changes.map { queued in
                version += 1
                return Settlement.Outcome(
                    changeID: queued.change.id, kind: .applied(version: version, overwrote: [:], serverID: nil))
            }
            _ = try await store.settle(Settlement(outcomes: outcomes), claim: nil)
        }
        #expect(try await store.summary().pending == 0)
        #expect(try queued() == int("SELECT count(*) FROM sync_change"))
    }

    /// A card `n` is made, and edited in a unit with its list; all of it is sent, and refused.
    /// - Returns: the keys of the create, the edit, and the list's edit.
    func refuseCardWithUnit(edited values: String) async throws -> [String] {
        try await applyBoard()
        try insertCard("n")
        try await store.write(unit: true) { db in
            try db.execute(sql: "UPDATE card SET \(values) WHERE id = 'n'")
            try db.execute(sql: "UPDATE list SET name = 'in' WHERE id = 'l1'")
        }
        let sent = try await claim(ClaimLimits(merges: false))
        try #require(sent.told == ["create card n", "update card n", "update list l1"])
        try await settle(
            (sent.keys[0], .refused()), (sent.keys[1], .refused("transaction")),
            (sent.keys[2], .refused("transaction")))
        return sent.keys
    }

    func insertCard(_ id: String = "c1", name: String = "A", list: String = "l1") throws {
        try sql("INSERT INTO card (id, name, idList, pos) VALUES (?, ?, ?, 1)", [id, name, list])
    }
}

extension Settlement.Outcome.Kind {
    static func applied(_ version: Int64) -> Self { .applied(version: version, overwrote: [:], serverID: nil) }
    static func refused(_ code: String = "invalid", reference: String? = nil) -> Self {
        .setAside(SetAsideReason(code: code, message: "no", reference: reference), staysUncertain: false)
    }
    static let unanswered = Settlement.Outcome.Kind.unanswered(attempts: 0)
}

extension Claim {
    /// `update card c1` of each.
    var told: [String] { changes.map { "\($0.change.operation.rawValue) \($0.change.record)" } }
    var keys: [String] { changes.map(\.change.id) }
}
