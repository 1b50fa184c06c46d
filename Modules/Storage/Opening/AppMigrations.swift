public import GRDB
public import SyncCore

/// The app's own migrations, run when the store opens: what they write is not captured, and changes that wait go along.
///
/// Each runs in one transaction with its steps for unsent changes and bases; the triggers are remade for the declared
/// schema when all are done. Never-sent changes go through the steps; one that was sent means the same for ever, and
/// goes out as it was. GRDB's `eraseDatabaseOnSchemaChange` is refused while changes wait.
public struct AppMigrations: Sendable {
    /// What becomes of a field in changes that wait and in bases.
    public enum ChangeStep: Sendable {
        case rename(entity: String, from: String, to: String)
        case drop(entity: String, field: String)
        /// Another form of the value, before and after alike.
        case convert(entity: String, field: String, @Sendable (FieldValue) throws -> FieldValue)
    }

    private(set) var migrator: DatabaseMigrator

    /// - Parameter migrator: migrations of before; what they write to tables that have triggers already is captured.
    public init(_ migrator: DatabaseMigrator = DatabaseMigrator()) { self.migrator = migrator }

    /// Registers a migration, as GRDB does.
    /// - Parameters:
    ///   - captures: what it writes is the user's data and goes to the server.
    ///   - changes: what becomes of changes that wait.
    public mutating func register(
        _ identifier: String, captures: Bool = false, changes: [ChangeStep] = [],
        migrate: @escaping @Sendable (Database) throws -> Void
    ) {
        migrator.registerMigration(identifier) { db in
            guard try EngineTables.found(db) != nil else { return try migrate(db) }
            if captures {
                try migrate(db)
            } else {
                // SQLite refuses to drop or rename what a trigger mentions.
                try TriggerSetup.removeAll(db)
                try migrate(db)
            }
            for step in changes { try step.run(db) }
        }
    }

    func run(_ database: any DatabaseWriter) throws(StoreFailure) {
        do {
            if migrator.eraseDatabaseOnSchemaChange { try database.read(Self.checkNothingWaits) }
            try migrator.migrate(database)
        } catch {
            throw StoreFailure(error, while: "running the app's migrations")
        }
    }

    private static func checkNothingWaits(_ db: Database) throws {
        guard try EngineTables.found(db) != nil,
            try Row.fetchOne(db, sql: "SELECT 1 FROM sync_change LIMIT 1") != nil
        else { return }
        throw StoreFailure(
            kind: .refused,
            message: "eraseDatabaseOnSchemaChange would lose changes that were not sent; sync first, or switch it off.")
    }
}

extension AppMigrations.ChangeStep {
    private var entity: String {
        switch self {
        case .rename(let entity, _, _), .drop(let entity, _), .convert(let entity, _, _): entity
        }
    }

    /// Takes never-sent changes, and bases, through the step.
    fileprivate func run(_ db: Database) throws {
        try ChangeRows.fold(db)
        let changes = try Row.fetchAll(
            db, sql: "SELECT position, operation, fields FROM sync_change WHERE entity = ? AND state IN (0, 3)",
            arguments: [entity])
        for row in changes {
            guard case .object(let fields) = try FieldValue(json: row[2] as String, maximumDepth: 80) else { continue }
            let next = try apply(fields) { try convertDelta($0, $1) }
            guard next != fields else { continue }
            if next.isEmpty, row[1] as Int64 == Operation.update.number {
                // Nothing of it is left to say.
                try ChangeRows.delete(db, position: row[0])
                try ChangeRows.count(db, -1)
            } else {
                try db.execute(
                    sql: "UPDATE sync_change SET fields = ? WHERE position = ?",
                    arguments: [try FieldValue.object(next).jsonText(), row[0] as Int64])
            }
        }
        let ids = try String.fetchAll(
            db, sql: "SELECT id FROM sync_record WHERE entity = ? AND base IS NOT NULL", arguments: [entity])
        for id in ids {
            let key = RecordKey(entity, id)
            guard var stored = try StoredRecord.read(db, key), let base = stored.base else { continue }
            stored.base?.fields = try apply(base.fields) { convert, value in try convert(value) }
            try stored.write(db, key)
        }
    }

    private func apply(
        _ fields: [String: FieldValue],
        _ body: ((FieldValue) throws -> FieldValue, FieldValue) throws -> FieldValue
    ) throws -> [String: FieldValue] {
        var next = fields
        switch self {
        case .rename(_, let from, let to):
            if let value = next.removeValue(forKey: from) { next[to] = value }
        case .drop(_, let field): next[field] = nil
        case .convert(_, let field, let convert):
            if let value = next[field] { next[field] = try body(convert, value) }
        }
        return next
    }

    /// Both values of a stored delta.
    private func convertDelta(
        _ convert: (FieldValue) throws -> FieldValue, _ delta: FieldValue
    ) throws -> FieldValue {
        guard case .object(var members) = delta else { return delta }
        for member in ["old", "new"] {
            if let value = members[member] { members[member] = try convert(value) }
        }
        return .object(members)
    }
}
