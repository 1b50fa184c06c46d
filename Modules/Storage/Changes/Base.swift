import GRDB
import SyncCore

/// The last known server state of a record.
///
/// It is not copied when a record is first edited (that would cost each captured write a second row); it follows from
/// what is there. A field's base is, in this order:
/// 1. what `sync_record.base` says, which is written when the server's word comes while changes wait;
/// 2. `old` of the earliest remaining change that names the field;
/// 3. the row's value; for a deleted row `old` of the delete.
///
/// *Remaining* are the changes that the row shows: all but updates and deletes that were refused and are not kept.
enum Base {
    /// The condition on `sync_change` for what remains.
    private static let remains = """
        (state <> 4 OR operation = 0 OR EXISTS (
          SELECT 1 FROM sync_failure WHERE sync_failure.key = sync_change.key AND uncertain IN (-1, 1)))
        """

    /// The base of a record, for every declared field.
    /// - Parameters:
    ///   - changes: the record's remaining changes, in the queue's order.
    ///   - row: the app's row, where there is one.
    static func state(
        stored: StoredRecord?, changes: [StoredChange], row: [String: FieldValue]?, entity: EntitySchema
    ) -> RecordState {
        // Not even `old` of what waits says what it is by now.
        if let base = stored?.base, base.isAway { return base }
        // An edit may stand before the create: it was refused, history lost its record, and that was made anew before it went again
        // (seed 162544).
        let isLive: Bool =
            if let base = stored?.base {
                base.isLive
            } else if let first = changes.first(where: { $0.operation != .update }) {
                first.operation == .delete
            } else { row != nil || !changes.isEmpty }
        var fields: [String: FieldValue] = [:]
        for field in entity.fields {
            let name = field.name
            if let value = stored?.base?.fields[name] {
                fields[name] = value
            } else if let first = changes.first(where: { $0.fields[name] != nil }) {
                // A create has no `old`: before it there was nothing.
                if let old = first.fields[name]?.old { fields[name] = old }
            } else if let value = row?[name] {
                fields[name] = value
            }
        }
        var state = RecordState(isLive: isLive, fields: fields)
        state.keepTold(of: stored?.base, above: 0)
        if stored?.base != nil { state.fillNulls(of: changes) }
        return state
    }

    /// The base of those fields only that the changes name; nobody need look at the row for them.
    static func named(in changes: [StoredChange], over stored: StoredRecord?) -> [String: FieldValue] {
        var fields: [String: FieldValue] = [:]
        for change in changes {
            for (name, delta) in change.fields where fields[name] == nil {  // any order
                fields[name] = stored?.base?.fields[name] ?? delta.old ?? .null
            }
        }
        return fields
    }

    /// Asks for a record's remaining changes, in the queue's order.
    static let askingForRemaining = """
        SELECT \(StoredChange.columns) FROM sync_change WHERE entity = ? AND id = ? AND \(remains) ORDER BY position
        """

    /// The record's remaining changes, in the queue's order.
    static func remaining(_ db: Database, of record: RecordKey, _ schema: Schema) throws -> [StoredChange] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: askingForRemaining), arguments: [record.entity, record.id])
        var changes: [StoredChange] = []
        while let row = try rows.next() { changes.append(StoredChange(lenient: row, schema)) }
        return changes
    }

    /// Whether anything of this record waits to be decided, or was set aside with the row still showing it.
    static func hasRemaining(_ db: Database, _ record: RecordKey) throws -> Bool {
        let sql = """
            SELECT 1 FROM sync_change WHERE entity = ? AND id = ? AND \(remains) LIMIT 1
            """
        let statement = try db.cachedStatement(sql: sql)
        return try Row.fetchOne(statement, arguments: [record.entity, record.id]) != nil
    }
}
