import SyncCore

/// What a record is told to be, apart from its name and its values.
struct ToldShape {
    var version: Int64?
    var isDeleted = false
    var isGone = false
    var hasFields = false

    /// The members of a record; a reader of records has them as its ``JSONReader/tags``.
    static let members = ["entity", "id", "fields", "version", "deleted", "gone"]
    static let entity = 1
    static let id = 2
    static let fields = 3

    /// Reads the member with this number, or passes it over if nobody knows it.
    mutating func read(_ member: Int, _ reader: inout JSONReader) throws(JSONFailure) {
        switch member {
        case 4: version = try reader.readInt()
        case 5: isDeleted = try reader.readNull() ? false : reader.readBool()
        case 6: isGone = try reader.readNull() ? false : reader.readBool()
        default: try reader.skipValue()
        }
    }

    /// The version and what became of the record, if they are of the contract's shape.
    func judge() throws(AnswerFault) -> (version: Int64, presence: ServerRecord.Presence) {
        guard let version, version > 0 else {
            throw AnswerFault("a record's version above 0", version.map { "\($0)" } ?? "none")
        }
        guard !(isDeleted && isGone) else { throw AnswerFault("a record that is deleted or gone", "both") }
        guard hasFields || isDeleted || isGone else { throw AnswerFault("a live record's fields", "none") }
        return (version, isGone ? .gone : isDeleted ? .deleted : .live)
    }

    static func noEntity() -> AnswerFault { AnswerFault("a record's entity", "none") }

    static func noID(_ came: String) -> AnswerFault {
        AnswerFault("a record's id of 1 to 128 letters, digits, -, _, ., :", came)
    }
}

/// A record of a page or a verdict as it is told: members may be missing until ``record(for:)`` has judged it.
struct ToldRecord {
    private var entity: String?
    private var id: String?
    private var shape = ToldShape()
    private var fields: [String: FieldValue] = [:]

    /// Reads a record with a reader whose tags are ``ToldShape/members``; unknown members are passed over.
    init(_ reader: inout JSONReader) throws(AnswerFault) {
        do throws(JSONFailure) {
            try reader.beginObject()
            while let member = try reader.nextTag() {
                switch member {
                case ToldShape.entity: entity = try reader.readString()
                case ToldShape.id: id = try reader.readString()
                case ToldShape.fields:
                    guard try !reader.readNull() else { continue }
                    shape.hasFields = true
                    fields = try reader.readMembers()
                default: try shape.read(member, &reader)
                }
            }
        } catch {
            throw AnswerFault(error)
        }
    }

    /// Whether it is told under another id than the change's record has here, or is known to have there.
    func isOther(than change: Change, _ names: ToldNames) -> Bool {
        guard let id, id != change.record.id else { return false }
        return !names.isName(RecordKey(entity ?? change.record.entity, id), of: change.record)
    }

    /// The record, if it is one of the contract's shape.
    ///
    /// - Parameters:
    ///   - change: the change that a verdict's record belongs to, which it may leave unnamed; `nil` in a page.
    ///   - names: the ids that the server gives to what the request creates; told by its own, the record is the change's.
    consuming func record(
        for change: Change? = nil, _ names: ToldNames = ToldNames()
    ) throws(AnswerFault) -> ServerRecord {
        let entity = entity ?? change?.record.entity
        let id = id ?? change?.record.id
        guard let entity, !entity.isEmpty else { throw ToldShape.noEntity() }
        guard let id, RecordKey.isValidID(id) else { throw ToldShape.noID(id == nil ? "none" : "another") }
        let (version, presence) = try shape.judge()
        var key = RecordKey(entity, id)
        if let change, names.isName(key, of: change.record) { key = change.record }
        if let change, change.record != key {
            throw AnswerFault("the changed record beside a verdict", "another record")
        }
        return ServerRecord(key: key, version: version, presence: presence, fields: presence == .gone ? [:] : fields)
    }
}
