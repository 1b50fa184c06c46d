import GRDB

/// What a device's tables say of the records that a violation names, for who reads a trace.
enum Inspection {
    private static let queries = [
        "SELECT entity, id, version, pass, base FROM sync_record",
        "SELECT entity, id, key, position, sequence, operation, state, baseVersion, blockedBy, fields FROM sync_change",
        "SELECT entity, id, version, reason, detail, record FROM sync_held",
        "SELECT entity, id, key, at, kind, detail FROM sync_event",
        "SELECT entity, id, key, at, kind, field, mine, theirs, winner FROM sync_conflict",
        "SELECT entity, id, serverID FROM sync_identity",
    ]

    /// A line for each row about one of the records, table by table, and one for each of the last cycles.
    static func lines(_ db: Database, about ids: Set<String>) throws -> [String] {
        var lines: [String] = []
        for sql in queries {
            let table = sql.split(separator: " ").last ?? ""
            for row in try Row.fetchAll(db, sql: sql) where ids.contains(String(((row[1] as String?) ?? "").suffix(36)))
            {
                let values = row.map { name, value in "\(name) \(value.isNull ? "-" : "\(value)")" }
                lines.append("\(table): \(values.joined(separator: ", "))")
            }
        }
        let cycles = try String.fetchAll(db, sql: "SELECT summary FROM sync_cycle ORDER BY number DESC LIMIT 3")
        return lines + cycles.reversed().map { "sync_cycle: \($0)" }
    }
}
