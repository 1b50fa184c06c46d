public import SyncCore

/// A write that a rule makes as an app would.
public struct LocalWrite: Sendable, Hashable {
    public var operation: Operation
    public var record: RecordKey
    /// The new values; for an update only those that change, for a delete none.
    public var values: [String: FieldValue]

    public init(_ operation: Operation, _ record: RecordKey, _ values: [String: FieldValue] = [:]) {
        self.operation = operation
        self.record = record
        self.values = values
    }
}

/// A change log on trial, fresh and empty, over the entities of ``ChangeLogContract/entities``.
public struct ChangeLogSubject: Sendable {
    /// The log.
    public var log: any ChangeLog & ChangeRepair
    /// Makes local writes in one transaction, as an app does; with `true` they are one unit for the server, too.
    public var write: @Sendable ([LocalWrite], Bool) async throws -> Void
    /// The log as the next process finds it after this one was killed.
    public var crash: @Sendable () async throws -> any ChangeLog & ChangeRepair

    public init(
        log: any ChangeLog & ChangeRepair, write: @escaping @Sendable ([LocalWrite], Bool) async throws -> Void,
        crash: @escaping @Sendable () async throws -> any ChangeLog & ChangeRepair
    ) {
        self.log = log
        self.write = write
        self.crash = crash
    }
}

/// Short words for the rules.
extension ChangeLogSubject {
    static let board = RecordKey("board", "b1")
    static let other = RecordKey("board", "b2")
    static let card = RecordKey("card", "c1")

    func write(_ operation: Operation, _ record: RecordKey, _ values: [String: FieldValue] = [:]) async throws {
        try await write([LocalWrite(operation, record, values)], false)
    }

    /// Board b1 as the server has it, at version 5, with nothing in the queue.
    func settledBoard() async throws {
        try await write(.create, Self.board, ["name": "A"])
        let claim = try await take()
        try await settle(claim.changes.map { ($0, .applied(version: 5, overwrote: [:], serverID: nil)) })
    }

    func take(_ limits: ClaimLimits = ClaimLimits()) async throws -> Claim {
        try await log.settle(Settlement(), claim: limits)
    }

    @discardableResult
    func settle(
        _ outcomes: [(QueuedChange, Settlement.Outcome.Kind)], claim: ClaimLimits? = nil
    ) async throws -> Claim {
        let settlement = Settlement(
            outcomes: outcomes.map { Settlement.Outcome(changeID: $0.0.change.id, kind: $0.1) })
        return try await log.settle(settlement, claim: claim)
    }
}

extension Settlement.Outcome.Kind {
    static let done = Settlement.Outcome.Kind.applied(version: nil, overwrote: [:], serverID: nil)

    static func refused(_ code: String = "invalid", reference: String? = nil) -> Settlement.Outcome.Kind {
        .setAside(SetAsideReason(code: code, message: "no", reference: reference), staysUncertain: false)
    }
}

extension Claim {
    var records: [RecordKey] { changes.map(\.change.record) }
    var ids: [String] { changes.map(\.change.id) }
}
