import SyncCore

/// The expressions that the capture triggers are made of.
///
/// Values are written as JSON in the wire's form, so that a claim need not write them anew, but for bytes, which are hex. Doubles are written
/// with 20 digits: SQLite's JSON functions keep 15, which would not come back the same. Its decimal form is exact enough
/// below 1e100 only, so a large double is written as text, `p800:` and the decimal form of its 2^800th part.
enum CaptureSQL {
    /// Milliseconds since 1970: a test's fixed time, or the system's, without a function of ours (another process may write).
    static let wall = "coalesce(wall, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))"

    /// A key: a UUID of version 7 (RFC 9562), the milliseconds first, then the last twelve bits of the sequence and 62 random
    /// ones, so that keys made one after the other stand beside each other in each index, here and on the server.
    ///
    /// With a test's seed it is shaped as one of version 4 and follows from the seed and the sequence.
    static func key(for sequence: String = "sequence") -> String {
        """
        CASE WHEN seed IS NULL THEN printf('%08x-%04x-7%03x-%04x-%012x', (\(wall) >> 16) & 0xffffffff, \(wall) & 0xffff, \
        (\(sequence)) & 0xfff, 32768 | (random() & 0x3fff), random() & 0xffffffffffff) \
        ELSE printf('%08x-%04x-4%03x-%04x-%012x', seed & 0xffffffff, (seed >> 32) & 0xffff, (seed >> 48) & 0xfff, \
        32768 | ((seed >> 60) & 0xf), \(sequence)) END
        """
    }

    /// The place of the newest change; 0 for an empty queue.
    static let last = "coalesce((SELECT max(position) FROM sync_change), 0)"

    /// The stamp of the newest change.
    static let lastStamp = "coalesce((SELECT stamp FROM sync_change ORDER BY position DESC LIMIT 1), 0)"

    /// The same, a look longer, for what the engine runs itself: SQLite's plan of it says that nothing is walked over.
    static let foundStamp = """
        coalesce((SELECT stamp FROM sync_change WHERE position = (SELECT max(position) FROM sync_change)), 0)
        """

    /// The number that was given last: that of the newest change, or one whose change is there no more.
    static let sequence = "max(sequence, \(last))"

    /// What the clock must be set to before anything of the queue is taken away: captured changes do not write it, since that
    /// would cost each of them a page more.
    static let fold = "queued = queued + max(0, \(last) - sequence), stamp = max(stamp, \(foundStamp))"

    /// The clock moves on without a change.
    static let advance = "UPDATE sync_clock SET \(fold), sequence = \(sequence) + 1 WHERE one = 1"

    /// Puts a change into the queue, with the next number and stamp (`EngineTables`).
    static func enqueue(
        _ entity: String, _ id: String, _ operation: Operation, schema: Int, _ fields: String
    ) -> String {
        "INSERT INTO sync_enqueue VALUES (\(last), \(lastStamp), \(entity), \(id), \(operation.number), \(schema), \(fields));"
    }

    /// Whether the engine itself is not the one that writes.
    static let isApp = "(SELECT applying FROM sync_clock WHERE one = 1) = 0"

    static func quoted(_ name: String) -> String { "\"\(name)\"" }

    /// A text of ours as an SQL literal; names are letters, digits and `_` only, messages have no quotes.
    static func literal(_ text: String) -> String { "'\(text)'" }

    /// A finite double as JSON, exactly.
    private static func decimal(_ column: String) -> String {
        // 2^800: dividing by it is exact, and leaves 1e60 and more far above the smallest doubles.
        let large = "'\"p800:' || printf('%!.20g', \(column) / 6.668014432879854274e240) || '\"'"
        return "CASE WHEN abs(\(column)) < 1e60 THEN printf('%!.20g', \(column)) ELSE \(large) END"
    }

    /// An integer as `true` or `false`.
    private static func truth(_ column: String) -> String {
        "CASE \(column) <> 0 WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END"
    }

    /// A stored value as JSON, as the declared kind reads it.
    ///
    /// Each mention of a column costs each statement on the table, which compiles its triggers: one is enough mostly.
    static func lenient(_ column: String, _ kind: FieldKind) -> String {
        switch kind {
        case .json: "CASE WHEN json_valid(\(column)) THEN json(\(column)) ELSE json_quote(\(column)) END"
        case .text, .date: "json_quote(CAST(\(column) AS TEXT))"
        case .integer: "json_quote(CAST(\(column) AS INTEGER))"
        case .boolean: truth("CAST(\(column) AS INTEGER)")
        case .data: "CASE WHEN \(column) IS NULL THEN 'null' ELSE '\"' || hex(\(column)) || '\"' END"
        case .real:
            """
            CASE WHEN abs(\(column)) <= 1.7976931348623157e308 THEN \(decimal(column)) ELSE 'null' END
            """
        }
    }

    /// A value that the app writes as JSON; one that the declared kind cannot hold makes the write fail.
    static func strict(_ column: String, _ field: FieldSchema, _ entity: EntitySchema) -> String {
        let name = "\(entity.name).\(field.name)"
        let null = field.isRequired ? raise("\(name) must have a value") : "'null'"
        let wrong = raise("\(name) is declared as \(field.kind.rawValue) and cannot hold this value")
        let infinite = raise("\(name) cannot hold an infinite number")
        return switch field.kind {
        case .text, .date:
            // SQLite makes texts of numbers in such a column, and `json_quote` refuses bytes.
            field.isRequired
                ? "CASE WHEN \(column) IS NULL THEN \(null) ELSE json_quote(\(column)) END" : "json_quote(\(column))"
        case .integer:
            "CASE typeof(\(column)) WHEN 'integer' THEN \(column) WHEN 'null' THEN \(null) ELSE \(wrong) END"
        case .boolean:
            "CASE typeof(\(column)) WHEN 'integer' THEN \(truth(column)) WHEN 'null' THEN \(null) ELSE \(wrong) END"
        case .real:
            """
            CASE typeof(\(column)) WHEN 'real' THEN CASE WHEN abs(\(column)) <= 1.7976931348623157e308 \
            THEN \(decimal(column)) ELSE \(infinite) END \
            WHEN 'integer' THEN \(column) WHEN 'null' THEN \(null) ELSE \(wrong) END
            """
        case .json:
            "CASE WHEN json_valid(\(column)) THEN json(\(column)) WHEN \(column) IS NULL THEN \(null) ELSE \(wrong) END"
        case .data:
            """
            CASE typeof(\(column)) WHEN 'blob' THEN json_quote(hex(\(column))) WHEN 'null' THEN \(null) \
            ELSE \(wrong) END
            """
        }
    }

    /// Whether a value cannot be told on the wire as its field is declared: what ``strict(_:_:_:)`` refuses.
    static func isWrong(_ column: String, _ field: FieldSchema) -> String {
        let isType =
            switch field.kind {
            case .text, .date: "typeof(\(column)) = 'text'"
            case .integer, .boolean: "typeof(\(column)) = 'integer'"
            case .real: "typeof(\(column)) IN ('real', 'integer') AND abs(\(column)) <= 1.7976931348623157e308"
            case .json: "CASE WHEN json_valid(\(column)) THEN NOT (\(isDeep(column))) ELSE 0 END"
            case .data: "typeof(\(column)) = 'blob'"
            }
        return "CASE WHEN \(column) IS NULL THEN \(field.isRequired ? 1 : 0) ELSE NOT (\(isType)) END"
    }

    /// The row's id, which must be one that the contract takes (PROTOCOL.md, section 4, *Limits*).
    static func id(_ column: String, _ entity: EntitySchema) -> String {
        """
        CASE WHEN typeof(\(column)) IN ('text', 'integer') AND length(\(column)) BETWEEN 1 AND 128 \
        AND \(column) NOT GLOB '*[^A-Za-z0-9_.:-]*' THEN \(column) \
        ELSE \(raise("an id of \(entity.name) must have 1 to 128 letters, digits or - _ . :")) END
        """
    }

    /// Whether both are not the very same value; the column's own collation must not make a and A one.
    static func differs(_ old: String, _ new: String, _ kind: FieldKind) -> String {
        switch kind {
        case .text, .date, .json: "\(old) COLLATE BINARY IS NOT \(new)"
        case .integer, .boolean, .real, .data: "\(old) IS NOT \(new)"
        }
    }

    /// `,"rule":"sum"` where the field's rule is not the last writer.
    static func rule(_ field: FieldSchema) -> String {
        field.rule == .lastWriter ? "" : ",\"rule\":\"\(field.rule.rawValue)\""
    }

    /// All fields of a row as a delete keeps them: `{"name":{"old":…}}`.
    static func oldFields(_ row: String, _ entity: EntitySchema) -> String {
        object(
            entity.fields.map { field in
                "'\"\(field.name)\":{\"old\":' || \(lenient("\(row).\(quoted(field.column))", field.kind)) || '}'"
            })
    }

    /// The fields of a new row that have a value: `{"name":{"new":…}}`. For a create, absent and null are the same.
    static func newFields(_ entity: EntitySchema) -> String {
        let members = entity.fields.map { field in
            let value = strict("NEW.\(quoted(field.column))", field, entity)
            return "coalesce(',\"\(field.name)\":{\"new\":' || nullif(\(value), 'null') || '\(rule(field))}', '')"
        }
        return members.isEmpty ? "'{}'" : "'{' || substr(\(members.joined(separator: " || ")), 2) || '}'"
    }

    /// What a field without a value is in a create, for the fields that have a rule: `{"votes":{"new":null,"rule":"sum"}}`.
    static func emptyDeltas(_ entity: EntitySchema) -> String? {
        let fields = entity.fields.filter { $0.rule != .lastWriter }
        guard !fields.isEmpty else { return nil }
        return "{\(fields.map { "\"\($0.name)\":{\"new\":null\(rule($0))}" }.joined(separator: ","))}"
    }

    /// Whether a JSON text has so many brackets that it may be nested too deep: quick, and true for long lists, too.
    static func mayBeDeep(_ column: String) -> String {
        "length(\(column)) - length(replace(replace(\(column), '[', ''), '{', '')) > \(WireDepth.value)"
    }

    /// Whether it is. The paths say so, but for keys with dots and brackets; only what they find is looked through.
    static func isDeep(_ column: String) -> String {
        let steps = "length(fullkey) - length(replace(replace(fullkey, '.', ''), '[', ''))"
        return """
            CASE WHEN json_valid(\(column)) AND \(mayBeDeep(column)) THEN CASE WHEN
            (SELECT max(\(steps)) FROM json_tree(\(column)) WHERE type IN ('array', 'object')) >= \(WireDepth.value)
            THEN (WITH RECURSIVE nested (node, level) AS (
              SELECT id, 1 FROM json_tree(\(column)) WHERE parent IS NULL UNION ALL
              SELECT each.id, level + 1 FROM nested, json_tree(\(column)) AS each
              WHERE each.parent = nested.node AND each.type IN ('array', 'object') AND level <= \(WireDepth.value))
              SELECT max(level) FROM nested) > \(WireDepth.value) ELSE 0 END ELSE 0 END
            """
    }

    /// The fields that differ: `{"name":{"old":…,"new":…}}`; `old` gives the JSON of a field's value before.
    static func changedFields(
        _ entity: EntitySchema, differs: (FieldSchema) -> String, old: (FieldSchema) -> String
    ) -> String {
        let members = entity.fields.map { field in
            let value = strict("NEW.\(quoted(field.column))", field, entity)
            return """
                CASE WHEN \(differs(field)) THEN ',"\(field.name)":{"old":' || (\(old(field))) || ',"new":' \
                || (\(value)) || '\(rule(field))}' ELSE '' END
                """
        }
        return members.isEmpty ? "'{}'" : "'{' || substr(\(members.joined(separator: " || ")), 2) || '}'"
    }

    static func raise(_ message: String) -> String { "RAISE(ABORT, '\(message)')" }

    private static func object(_ members: [String]) -> String {
        members.isEmpty ? "'{}'" : "'{' || \(members.joined(separator: " || ',' || ")) || '}'"
    }
}
