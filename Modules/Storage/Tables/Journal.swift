import GRDB
import SyncCore

/// What is kept of values that were overridden, and of what happened (DESIGN.md, I13).
enum Journal {
    /// Kinds of conflicts in `sync_conflict.kind`.
    enum Conflict: String {
        /// A page brought another value while an unsent change stands on top of it.
        case replayed
        /// History was replaced, and the server has another value, or nothing.
        case lostByServer
        /// A full pass brought the record newer than it was here, and without the value.
        case leftOut
        /// The server has a record under the id of a row that stayed on this device.
        case localRow
    }

    /// Kinds of events in `sync_event.kind`.
    enum Event: String {
        /// A record was kept aside: of an unknown entity, of a wrong type, or against a constraint of the app's table.
        case unknownEntity, quarantined
        /// A record that was kept aside has been applied.
        case released
        /// The server's record lacks a field that has a value here.
        case missingField
        /// The file was restored or copied; it has a new device id.
        case newDevice
        /// The server's clock was found to differ; stamps of unsent changes were shifted.
        case clockShifted
        /// The file was corrupt and was moved aside.
        case movedAside, salvaged
        /// The file is new, or of no bytes, where one was before.
        case begunAnew
        /// A full pass began, ended, or waits for the app's word.
        case fullPassBegan, fullPassEnded, fullPassAwaits
        /// The server's record left all scopes asked for.
        case gone
        /// All data of the account was taken out of the file.
        case wiped
        /// A trigger was missing or of another form and was made anew.
        case triggerRemade
        /// A column of a declared entity's table belongs to no field: it stays on this device.
        case unmappedColumn
        /// A change that the triggers had missed was found.
        case missedChange
        /// The server held other contents at the same checkpoint; a full pass follows.
        case diverged
        /// A snapshot builder threw; what it made is as it was before.
        case snapshotFailed
        /// The losing value of a conflict was written again.
        case restored
    }

    /// Notes a value that was overridden; once for a change, a field and a kind, later values complete the entry.
    static func conflict(
        _ db: Database, _ kind: Conflict, change: String?, _ record: RecordKey, field: String?, mine: FieldValue?,
        theirs: FieldValue?, winner: String?, rule: MergeRule, at now: Int64
    ) throws {
        let statement = try RawStatement(
            db,
            """
            INSERT INTO sync_conflict (key, entity, id, field, mine, theirs, winner, rule, at, kind)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (key, field, kind) DO UPDATE SET mine = excluded.mine, theirs = excluded.theirs,
            winner = excluded.winner, at = excluded.at
            """)
        statement.begin()
        statement.add(change)
        statement.add(record.entity)
        statement.add(record.id)
        statement.add(field)
        statement.add(try mine?.jsonText())
        statement.add(try theirs?.jsonText())
        statement.add(winner)
        statement.add(rule.rawValue)
        statement.add(now)
        statement.add(kind.rawValue)
        try statement.run()
    }

    /// Notes that something happened.
    static func event(
        _ db: Database, _ kind: Event, _ record: RecordKey? = nil, change: String? = nil, detail: String? = nil,
        at now: Int64
    ) throws {
        try db.cachedStatement(
            sql: "INSERT INTO sync_event (at, kind, entity, id, key, detail) VALUES (?, ?, ?, ?, ?, ?)"
        ).execute(arguments: [now, kind.rawValue, record?.entity, record?.id, change, detail])
    }
}
