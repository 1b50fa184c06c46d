import SyncCore

/// I6 for all rules: what a record shows is what the server has, and on top of it what is unsent.
///
/// Worked out from the server's record and from what the app wrote, where both are known: the device's checkpoint is at
/// or above the record's version, and all that waits is edits that the app made and the server has not decided. (The
/// version held says less: `applied` raises it before the page has brought what others wrote.)
struct UnsentOverBase {
    let schema: Schema
    let facts: DeviceFacts
    let ledger: Ledger
    /// Keys that the server has done, refused or otherwise decided.
    let accepted: Set<String>
    let refused: Set<String>

    /// Where a record shows something else, in words.
    func differences(_ server: [ServerRecord]) -> [String] {
        let holding = Holding(facts, server, schema)
        let queues = Dictionary(grouping: facts.queue, by: \.record)
        return server.flatMap { record -> [String] in
            guard let queue = queues[record.key], record.presence == .live,
                record.version <= holding.checkpoint(of: record.key) ?? -1,
                !facts.held.contains(record.key), let row = facts.rows.rows[record.key],
                let entity = schema[record.key.entity], let writes = unsent(record.key, queue)
            else { return [] }
            return entity.fields.compactMap { field in
                let named = writes.filter { $0.values[field.name] != nil }
                let (shown, expected) = (
                    row[field.name] ?? .null, value(field, record.fields[field.name] ?? .null, named)
                )
                guard !isSame(shown, expected, field.rule) else { return nil }
                return
                    "\(record.key).\(field.name) shows \(shown), and is \(expected) by the server's record and what waits"
            }
        }
    }

    /// What the app wrote of it that waits; `nil` where something else waits, too, or where something was taken back,
    /// set aside or lost with the device: what was written behind that follows from what was there without it.
    private func unsent(_ key: RecordKey, _ queue: [DeviceFacts.Queued]) -> [Ledger.Entry]? {
        let keys = ledger.byRecord[key] ?? []
        guard ledger.isPlain(key), queue.allSatisfy({ $0.state != 4 && keys.contains($0.key) }) else { return nil }
        let waiting = Set(queue.map(\.key))
        let entries = keys.filter { waiting.contains(ledger.heir(of: $0)) }.compactMap { ledger.entries[$0] }
        let arePlain = entries.allSatisfy {
            $0.operation == .update && !accepted.contains($0.key) && !refused.contains($0.key)
        }
        return arePlain ? entries : nil
    }

    private func value(_ field: FieldSchema, _ base: FieldValue, _ writes: [Ledger.Entry]) -> FieldValue {
        switch field.rule {
        case .lastWriter, .check: writes.last?.values[field.name] ?? base
        case .sum:
            writes.reduce(base) { sum, write in
                .double(
                    number(sum) + number(write.values[field.name] ?? .null) - number(write.before[field.name] ?? .null))
            }
        case .union:
            .array(
                writes.reduce(elements(base)) { present, write in
                    let (before, after) = (
                        elements(write.before[field.name] ?? .null), elements(write.values[field.name] ?? .null)
                    )
                    return present.filter { !before.contains($0) || after.contains($0) }
                        + after.filter { !before.contains($0) && !present.contains($0) }
                })
        }
    }

    private func isSame(_ shown: FieldValue, _ expected: FieldValue, _ rule: MergeRule) -> Bool {
        switch rule {
        case .lastWriter, .check: shown.isSame(as: expected)
        case .sum: number(shown) == number(expected)
        case .union: Set(elements(shown)) == Set(elements(expected))
        }
    }

    private func elements(_ value: FieldValue) -> [FieldValue] {
        if case .array(let elements) = value { elements } else { [] }
    }

    private func number(_ value: FieldValue) -> Double {
        switch value {
        case .int(let number): Double(number)
        case .double(let number): number
        default: 0
        }
    }
}
