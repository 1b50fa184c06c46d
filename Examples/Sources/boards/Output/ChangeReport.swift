import Ferry
import SyncCore

/// Queued and set-aside changes as the commands tell them: JSON under stable names, and a line for people.
enum ChangeReport {
    /// One entry of `pending --json`; what is blocked waits for no time.
    static func json(_ queued: QueuedChange, _ wait: QueueWait) -> FieldValue {
        var members = change(queued.change)
        members["nextAttempt"] = queued.state == .blocked ? .null : wait.json
        members["state"] = .string(queued.state.rawValue)
        members["attempts"] = .int(Int64(queued.attempts))
        members["madeAt"] = time(queued.madeAtMilliseconds)
        members["blockedBy"] = queued.blockedBy.map(FieldValue.string) ?? .null
        return .object(members)
    }

    /// One entry of `failures --json`; `waiting` are the changes that need it: they wait for it, and would be discarded with it.
    static func json(_ failed: FailedChange, waiting: [String]) -> FieldValue {
        let change = failed.queued.change
        return [
            "changeID": .string(change.id), "sequence": .int(change.sequence), "entity": .string(change.record.entity),
            "id": .string(change.record.id), "operation": .string(change.operation.rawValue),
            "reason": json(failed.reason), "payload": .object(self.change(change)),
            "failedAt": time(failed.failedAtMilliseconds), "uncertain": .bool(failed.isUncertain),
            "attempts": .int(Int64(failed.queued.attempts)), "blocked": .array(waiting.map(FieldValue.string)),
        ]
    }

    /// One entry of `conflicts --json`.
    static func json(_ conflict: ConflictEntry) -> FieldValue {
        [
            "changeID": conflict.changeID.map(FieldValue.string) ?? .null, "entity": .string(conflict.record.entity),
            "id": .string(conflict.record.id), "field": conflict.field.map(FieldValue.string) ?? .null,
            "mine": conflict.mine ?? .null, "theirs": conflict.theirs ?? .null,
            "winner": conflict.winner.map(FieldValue.string) ?? .null, "rule": .string(conflict.rule.rawValue),
            "kind": .string(conflict.kind), "at": time(conflict.atMilliseconds), "number": .int(conflict.number),
        ]
    }

    static func json(_ figure: ConflictFigure) -> FieldValue {
        [
            "entity": .string(figure.entity), "field": figure.field.map(FieldValue.string) ?? .null,
            "count": .int(Int64(figure.count)), "records": .int(Int64(figure.records)),
            "wonHere": .int(Int64(figure.wonHere)), "wonThere": .int(Int64(figure.wonThere)),
            "first": time(figure.firstMilliseconds), "last": time(figure.lastMilliseconds),
            "meanDistance": figure.meanDistance.map(FieldValue.double) ?? .null,
            "greatestDistance": figure.greatestDistance.map(FieldValue.double) ?? .null,
        ]
    }

    static func line(_ figure: ConflictFigure) -> String {
        var text =
            "\(figure.entity).\(figure.field ?? "as a whole"): \(figure.count) times, of \(figure.records) records; "
        text += "this device's stood \(figure.wonHere) times, another \(figure.wonThere)"
        guard let mean = figure.meanDistance, let greatest = figure.greatestDistance else { return text }
        return text + "; \(mean) apart on average, \(greatest) at most"
    }

    static func line(_ conflict: ConflictEntry) -> String {
        let (mine, theirs) = (JSONText.text(conflict.mine ?? .null), JSONText.text(conflict.theirs ?? .null))
        let verdict =
            switch conflict.winner {
            case "mine": "this device's stands"
            case "theirs": "the server's stands"
            default: "\(conflict.winner ?? "undecided")"
            }
        return "\(conflict.record) \(conflict.field ?? "as a whole"): here \(mine), there \(theirs); \(verdict)"
            + "\n     \(conflict.kind), rule \(conflict.rule.rawValue)"
    }

    static func line(_ queued: QueuedChange) -> String {
        let change = queued.change
        var text = "\(change.sequence). \(change.operation.rawValue) \(change.record)"
        let fields = change.fields.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        for (name, delta) in fields where change.operation == .update || !delta.new.isNull {
            let old = delta.old.map { JSONText.text($0) + " → " } ?? ""
            text += "\n     \(name): \(old)\(JSONText.text(delta.new))"
        }
        return text + "\n     \(word(queued)), change \(change.id)"
    }

    static func line(_ failed: FailedChange, waiting: [String]) -> String {
        let change = failed.queued.change
        var text = "\(change.operation.rawValue) \(change.record) was set aside: \(plain(failed.reason.message))"
        text += " (\(plain(failed.reason.code)))\n     change \(change.id)"
        if !waiting.isEmpty {
            text += "\n     \(waiting.count) more need it, and would be discarded with it: \(few(waiting))"
        }
        return text
    }

    /// The first ten, and how many more there are: of a board's create that is thousands.
    private static func few(_ keys: [String]) -> String {
        let more = keys.count - 10
        return keys.prefix(10).joined(separator: ", ") + (more > 0 ? ", and \(more) more" : "")
    }

    /// A server's words as one line that moves nothing on a terminal: control and format characters are spaces.
    private static func plain(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { scalar -> Unicode.Scalar in
                    switch scalar.properties.generalCategory {
                    case .control, .format, .lineSeparator, .paragraphSeparator: " "
                    default: scalar
                    }
                }))
    }

    private static func word(_ queued: QueuedChange) -> String {
        switch queued.state {
        case .pending: "waits to be sent"
        case .uploading: "is being sent"
        case .uncertain: "was sent, no answer yet"
        case .blocked: "waits for \(queued.blockedBy ?? "another change")"
        case .failed: "was set aside"
        }
    }

    /// A change under the wire's names.
    private static func change(_ change: Change) -> [String: FieldValue] {
        var fields: [String: FieldValue] = [:]
        for (name, delta) in change.fields {
            // A create names every column; a null in it says nothing.
            if change.operation == .create, delta.new.isNull { continue }
            // A delete keeps the row's last values; it sets none.
            var told: [String: FieldValue] = change.operation == .delete ? [:] : ["new": delta.new]
            told["old"] = delta.old ?? .null
            if delta.rule != .lastWriter { told["rule"] = .string(delta.rule.rawValue) }
            fields[name] = .object(told)
        }
        var members: [String: FieldValue] = [
            "changeID": .string(change.id), "sequence": .int(change.sequence), "entity": .string(change.record.entity),
            "id": .string(change.record.id), "operation": .string(change.operation.rawValue),
            "schemaVersion": .int(Int64(change.schemaVersion)), "stamp": .string(change.stamp.description),
            "fields": .object(fields),
        ]
        if let version = change.baseVersion { members["baseVersion"] = .int(version) }
        if let unit = change.unit { members["transaction"] = .string(unit) }
        if let intent = change.intent { members["intent"] = .string(intent) }
        return members
    }

    private static func json(_ reason: SetAsideReason) -> FieldValue {
        var members: [String: FieldValue] = ["code": .string(reason.code), "message": .string(reason.message)]
        if let field = reason.field { members["field"] = .string(field) }
        if let reference = reason.reference { members["reference"] = .string(reference) }
        if let status = reason.status { members["status"] = .int(Int64(status)) }
        return .object(members)
    }

    static func time(_ milliseconds: Int64) -> FieldValue { .string(Timestamp(milliseconds: milliseconds).description) }
}
