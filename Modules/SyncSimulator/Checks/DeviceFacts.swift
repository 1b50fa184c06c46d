import GRDB
import SyncCore

/// What a device's tables say at one moment, read with plain SQL.
struct DeviceFacts {
    struct Queued {
        let key: String
        let sequence: Int64
        let record: RecordKey
        let operation: Int64
        /// The number in the column: 0 pending, 1 uploading, 2 uncertain, 3 and 5 blocked, 4 failed.
        let state: Int64
        let blockedBy: String?
    }

    let rows: Rows
    let queue: [Queued]
    let versions: [RecordKey: Int64]
    let held: Set<RecordKey>
    let failures: Set<String>
    /// Those that were set aside for a reason that only a verdict gives.
    let refused: Set<String>
    let checkpoint: Int64
    let epoch: String?
    let isInFullPass: Bool
    /// The number of the full pass that ran last, or runs.
    let pass: Int64
    let deviceID: String

    init(_ db: Database, _ schema: Schema) throws {
        rows = try Rows(db, schema)
        queue = try Row.fetchAll(
            db.cachedStatement(
                sql:
                    "SELECT key, sequence, entity, id, operation, state, blockedBy FROM sync_change ORDER BY position"
            )
        ).map {
            Queued(
                key: $0[0], sequence: $0[1], record: RecordKey($0[2], $0[3]), operation: $0[4],
                state: $0[5],
                blockedBy: $0[6])
        }
        var versions: [RecordKey: Int64] = [:]
        for row in try Row.fetchAll(
            db.cachedStatement(sql: "SELECT entity, id, version FROM sync_record"))
        {
            versions[RecordKey(row[0], row[1])] = row[2]
        }
        self.versions = versions
        held = Set(
            try Row.fetchAll(db.cachedStatement(sql: "SELECT entity, id FROM sync_held")).map {
                RecordKey($0[0], $0[1])
            })
        failures = Set(try String.fetchAll(db.cachedStatement(sql: "SELECT key FROM sync_failure")))
        // The engine's own reasons are these, and those that name the status of a whole answer.
        let told = """
            SELECT key FROM sync_failure WHERE reason ->> '$.status' IS NULL
            AND reason ->> '$.code' NOT IN ('tooManyAttempts', 'conflict', 'gone')
            """
        refused = Set(try String.fetchAll(db.cachedStatement(sql: told)))
        func meta(_ key: String) throws -> DatabaseValue {
            try DatabaseValue.fetchOne(
                db.cachedStatement(sql: "SELECT value FROM sync_meta WHERE key = ?"), arguments: [key])
                ?? .null
        }
        checkpoint = Int64.fromDatabaseValue(try meta("checkpoint")) ?? 0
        epoch = String.fromDatabaseValue(try meta("epoch"))
        isInFullPass = Int64.fromDatabaseValue(try meta("passRuns")) == 1
        pass = Int64.fromDatabaseValue(try meta("pass")) ?? 0
        deviceID = String.fromDatabaseValue(try meta("device")) ?? ""
    }

    /// Changes that wait to be decided: neither set aside nor blocked.
    var undecided: [Queued] { queue.filter { $0.state <= 2 } }
    var failed: [Queued] { queue.filter { $0.state == 4 } }
    var blocked: [Queued] { queue.filter { $0.state == 3 || $0.state == 5 } }
}
