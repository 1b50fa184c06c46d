internal import SyncCore

/// Writes results and records as JSON.
enum OutcomeWriter {
    /// One member of `results`.
    static func write(_ outcome: ChangeOutcome, members: String, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("changeID")
        writer.string(outcome.changeID)
        writer.key("verdict")
        writer.string(outcome.decision.verdict)
        if case .duplicate(let first) = outcome.decision {
            writer.key("first")
            writer.string(first.verdict)
        }
        if !members.isEmpty { writer.raw(members.utf8) }
        writer.endObject()
    }

    /// What stands beside the verdict: the inside of an object, which a duplicate repeats.
    static func members(of outcome: ChangeOutcome) throws(JSONFailure) -> String {
        if case .duplicate(let first) = outcome.decision {
            guard let serverID = outcome.serverID else { return first.members }
            return "\(first.members)\(first.members.isEmpty ? "" : ",")\"serverID\":\"\(serverID)\""
        }
        if case .applied(let version?, let overwrote) = outcome.decision, overwrote.isEmpty, !outcome.isClamped,
            outcome.serverID == nil
        {
            return "\"version\":\(version)"
        }
        var writer = JSONWriter(capacity: 64)
        writer.beginObject()
        try decision(outcome.decision, into: &writer)
        if let serverID = outcome.serverID {
            writer.key("serverID")
            writer.string(serverID)
        }
        if outcome.isClamped {
            writer.key("clamped")
            writer.bool(true)
        }
        writer.endObject()
        return String(decoding: writer.bytes.dropFirst().dropLast(), as: UTF8.self)
    }

    private static func decision(_ decision: Decision, into writer: inout JSONWriter) throws(JSONFailure) {
        switch decision {
        case .applied(let version, let overwrote):
            if let version {
                writer.key("version")
                writer.int(version)
            }
            if !overwrote.isEmpty {
                writer.key("overwrote")
                try fields(overwrote, into: &writer)
            }
        case .merged(let view), .conflict(let view):
            writer.key("record")
            try record(view, into: &writer)
        case .rejected(let rejection):
            writer.key("error")
            error(rejection, into: &writer)
        case .blocked(let by):
            writer.key("by")
            writer.string(by)
        case .retry(let seconds?):
            writer.key("retryAfter")
            try writer.value(seconds == seconds.rounded() ? .int(Int64(seconds)) : .double(seconds))
        case .retry(nil), .duplicate: break
        }
    }

    static func error(_ rejection: Rejection, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("code")
        writer.string(rejection.code.rawValue)
        writer.key("message")
        writer.string(rejection.message)
        if let field = rejection.field {
            writer.key("field")
            writer.string(field)
        }
        if let reference = rejection.reference {
            writer.key("reference")
            writer.string(reference)
        }
        writer.endObject()
    }

    /// A record as `record` and `changedRecords` tell it.
    static func record(_ view: RecordView, into writer: inout JSONWriter) throws(JSONFailure) {
        head(view.key, version: view.version, isDead: view.isDead, into: &writer)
        try fields(view.fields, into: &writer)
        writer.endObject()
    }

    /// The same of a record whose fields are JSON already.
    static func record(
        _ key: RecordKey, version: Int64, isDead: Bool, fields: String, into writer: inout JSONWriter
    ) {
        head(key, version: version, isDead: isDead, into: &writer)
        writer.raw((isDead ? "{}" : fields).utf8)
        writer.endObject()
    }

    private static func head(_ key: RecordKey, version: Int64, isDead: Bool, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("entity")
        writer.string(key.entity)
        writer.key("id")
        writer.string(key.id)
        writer.key("version")
        writer.int(version)
        writer.key("deleted")
        writer.bool(isDead)
        writer.key("fields")
    }

    /// A record that left all scopes asked for.
    static func gone(_ key: RecordKey, version: Int64, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("entity")
        writer.string(key.entity)
        writer.key("id")
        writer.string(key.id)
        writer.key("version")
        writer.int(version)
        writer.key("gone")
        writer.bool(true)
        writer.endObject()
    }

    static func fields(_ fields: [(name: String, value: FieldValue)], into writer: inout JSONWriter) throws(JSONFailure)
    {
        writer.beginObject()
        for field in fields {
            writer.key(field.name)
            try writer.value(field.value)
        }
        writer.endObject()
    }
}
