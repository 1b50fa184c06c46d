import SyncCore

/// A record of a page or a verdict as it is told: members may be missing until ``record(for:)`` has judged it.
struct ToldRecord {
    var entity: String?
    var id: String?
    var version: Int64?
    var isDeleted = false
    var isGone = false
    var hasFields = false
    /// Empty where only the shape was looked at.
    var fields: [String: FieldValue] = [:]

    /// Reads a record; unknown members are passed over.
    ///
    /// - Parameter keepsFields: `false` checks the fields as strictly, but makes no values.
    init(_ reader: inout JSONReader, keepsFields: Bool) throws(AnswerFault) {
        do throws(JSONFailure) {
            try reader.beginObject()
            while let name = try reader.nextKey() {
                switch name {
                case "entity": entity = try reader.readString()
                case "id": id = try reader.readString()
                case "version": version = try reader.readInt()
                case "deleted": isDeleted = try reader.readNull() ? false : reader.readBool()
                case "gone": isGone = try reader.readNull() ? false : reader.readBool()
                case "fields":
                    guard try !reader.readNull() else { continue }
                    hasFields = true
                    try readFields(&reader, keepsFields: keepsFields)
                default: try reader.skipValue()
                }
            }
        } catch {
            throw AnswerFault(error)
        }
    }

    private mutating func readFields(_ reader: inout JSONReader, keepsFields: Bool) throws(JSONFailure) {
        let start = reader
        guard try reader.peek() == .object else { return try reader.beginObject() }
        guard keepsFields else {
            try reader.skipValue()
            return
        }
        if case .object(let members) = try reader.readValue() {
            fields = members
            return
        }
        // An only field that is called `$data` looks like bytes, but names a field here.
        reader = start
        try reader.beginObject()
        while let name = try reader.nextKey() { fields[name] = try reader.readValue() }
    }

    /// The record, if it is one of the contract's shape.
    ///
    /// - Parameter change: the change that a verdict's record belongs to, which it may leave unnamed; `nil` in a page.
    func record(for change: Change? = nil) throws(AnswerFault) -> ServerRecord {
        let entity = entity ?? change?.record.entity
        let id = id ?? change?.record.id
        guard let entity, !entity.isEmpty else { throw AnswerFault("a record's entity", "none") }
        guard let id, RecordKey.isValidID(id) else {
            throw AnswerFault("a record's id of 1 to 128 letters, digits, -, _, ., :", id == nil ? "none" : "another")
        }
        guard let version, version > 0 else {
            throw AnswerFault("a record's version above 0", version.map { "\($0)" } ?? "none")
        }
        guard !(isDeleted && isGone) else { throw AnswerFault("a record that is deleted or gone", "both") }
        guard hasFields || isDeleted || isGone else { throw AnswerFault("a live record's fields", "none") }
        let key = RecordKey(entity, id)
        if let change, change.record != key {
            throw AnswerFault("the changed record beside a verdict", "another record")
        }
        let presence: ServerRecord.Presence = isGone ? .gone : isDeleted ? .deleted : .live
        return ServerRecord(key: key, version: version, presence: presence, fields: isGone ? [:] : fields)
    }
}
