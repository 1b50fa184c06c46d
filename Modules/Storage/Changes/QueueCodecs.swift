import GRDB
import SyncCore

/// The queue's schedule as JSON in `sync_meta`.
enum ScheduleCodec {
    static func write(_ db: Database, _ schedule: QueueSchedule) throws {
        var members: [String: FieldValue] = [
            "failures": .int(Int64(schedule.failures)), "needsCredentials": .bool(schedule.needsCredentials),
        ]
        members["notBefore"] = schedule.notBeforeMilliseconds.map(FieldValue.int)
        members["serverNotBefore"] = schedule.serverNotBeforeMilliseconds.map(FieldValue.int)
        members["changesNotBefore"] = schedule.changesNotBeforeMilliseconds.map(FieldValue.int)
        members["batchLimit"] = schedule.batchLimit.map { .int(Int64($0)) }
        members["cause"] = schedule.cause.map(FieldValue.string)
        let sql = """
            INSERT INTO sync_meta (key, value) VALUES ('schedule', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value
            """
        try db.cachedStatement(sql: sql).execute(arguments: [FieldValue.object(members).jsonText()])
    }

    static func read(_ db: Database) throws -> QueueSchedule {
        let sql = "SELECT value FROM sync_meta WHERE key = 'schedule'"
        return try read(String.fetchOne(db.cachedStatement(sql: sql)))
    }

    /// The schedule in a text; the first one where there is none.
    static func read(_ json: String?) throws -> QueueSchedule {
        guard let json, case .object(let members) = try FieldValue(json: json) else { return QueueSchedule() }
        return QueueSchedule(
            failures: members["failures"]?.int.map { Int($0) } ?? 0, notBeforeMilliseconds: members["notBefore"]?.int,
            serverNotBeforeMilliseconds: members["serverNotBefore"]?.int,
            changesNotBeforeMilliseconds: members["changesNotBefore"]?.int,
            needsCredentials: members["needsCredentials"] == .bool(true),
            batchLimit: members["batchLimit"]?.int.map { Int($0) }, cause: members["cause"]?.text)
    }
}

/// Why a change was set aside, as JSON in `sync_failure`.
enum ReasonCodec {
    static func json(_ reason: SetAsideReason) throws -> String {
        var members: [String: FieldValue] = ["code": .string(reason.code), "message": .string(reason.message)]
        members["field"] = reason.field.map(FieldValue.string)
        members["reference"] = reason.reference.map(FieldValue.string)
        members["status"] = reason.status.map { .int(Int64($0)) }
        return try FieldValue.object(members).jsonText()
    }

    static func reason(_ json: String) throws -> SetAsideReason {
        guard case .object(let members) = try FieldValue(json: json) else {
            return SetAsideReason(code: "invalid", message: json)
        }
        return SetAsideReason(
            code: members["code"]?.text ?? "invalid", message: members["message"]?.text ?? "",
            field: members["field"]?.text, reference: members["reference"]?.text,
            status: members["status"]?.int.map { Int($0) })
    }
}

extension FieldValue {
    /// The integer that this is.
    var int: Int64? { if case .int(let value) = self { value } else { nil } }
    /// The text that this is.
    var text: String? { if case .string(let value) = self { value } else { nil } }
}
