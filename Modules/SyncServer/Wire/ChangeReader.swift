internal import SyncCore

/// Reads one change. It throws only for what is no JSON, or has no key to answer under; all else that is wrong makes
/// the change a malformed one, which is refused by itself.
struct ChangeReader {
    let limits: ServerLimits
    let nowMilliseconds: Int64
    /// The request's device.
    let device: String
    /// Which fields are ids, where the server makes its own.
    var naming: [String: EntityRules]?

    /// The members of a change that are known by name; the request's reader has ``names`` as its `tags`, so that they are
    /// told by number and no name is compared.
    private enum Member: Int {
        case changeID = 1
        case deviceID, sequence, entity, id, operation, schemaVersion, stamp, baseVersion, transaction, intent, fields
    }

    /// In the order of ``Member``.
    static let names = [
        "changeID", "deviceID", "sequence", "entity", "id", "operation", "schemaVersion", "stamp", "baseVersion",
        "transaction", "intent", "fields",
    ]

    /// What has been read of a change, and the first thing that is wrong with it.
    private struct Draft {
        var id: String?
        var device: String?
        var sequence: Int64?
        var entity: String?
        var recordID: String?
        var operation: Operation?
        var schemaVersion: Int64 = 0
        var stamp: Stamp?
        var baseVersion: Int64?
        var unit: String?
        var intent: String?
        var fields: [IncomingChange.Field] = []
        var ownStamps: [String: Stamp] = [:]
        var fault: Rejection?

        mutating func refuse(_ message: String, field: String? = nil, code: Rejection.Code = .invalid) {
            if fault == nil { fault = Rejection(code: code, message: message, field: field) }
        }
    }

    func read(_ reader: inout JSONReader) throws -> DirtyRecord {
        var draft = Draft()
        guard try reader.peek() == .object else { throw Problem.malformed("a change is no object") }
        let start = reader.offset
        try reader.beginObject()
        while let tag = try reader.nextTag() { try member(Member(rawValue: tag), &reader, &draft) }
        if let unfit = reader.takeUnfit() { draft.refuse("a value does not fit: \(Self.fault(unfit))") }
        guard let id = draft.id else { throw Problem.malformed("a change has no changeID") }
        return finish(&draft, id: id, size: reader.offset - start)
    }

    private func member(_ member: Member?, _ reader: inout JSONReader, _ draft: inout Draft) throws {
        switch member {
        case .changeID: draft.id = try text("changeID", &reader, &draft)
        case .deviceID: draft.device = try optionalText("deviceID", &reader, &draft)
        case .sequence: draft.sequence = try integer("sequence", &reader, &draft)
        case .entity: draft.entity = try text("entity", &reader, &draft)
        case .id: draft.recordID = try text("id", &reader, &draft)
        case .operation:
            draft.operation = try text("operation", &reader, &draft).flatMap(Operation.init(rawValue:))
            if draft.operation == nil { draft.refuse("the operation is not known") }
        case .schemaVersion: draft.schemaVersion = try integer("schemaVersion", &reader, &draft) ?? 0
        case .stamp:
            draft.stamp = try text("stamp", &reader, &draft).flatMap(Stamp.init)
            if draft.stamp == nil { draft.refuse("the stamp is none") }
        case .baseVersion:
            if try reader.readNull() { break }
            draft.baseVersion = try integer("baseVersion", &reader, &draft)
        case .transaction: draft.unit = try optionalText("transaction", &reader, &draft)
        // Compared with nothing, and kept as it is.
        case .intent: draft.intent = try optionalText("intent", &reader, &draft, isWord: false)
        case .fields: try fields(&reader, &draft)
        case nil:
            try reader.skipValue()
            _ = reader.takeUnfit()
        }
    }

    private func text(
        _ name: String, _ reader: inout JSONReader, _ draft: inout Draft, isWord: Bool = true
    ) throws -> String? {
        guard try reader.peek() == .string else {
            draft.refuse("\(name) is no string")
            try reader.skipValue()
            return nil
        }
        return isWord ? try reader.readWord() : try reader.readString()
    }

    private static func fault(_ unfit: JSONFailure) -> String {
        unfit.kind == .text
            ? "a name with more than \(String.mostMarks) marks in a row" : "a number beyond 64 bits, or no base64"
    }

    private func optionalText(
        _ name: String, _ reader: inout JSONReader, _ draft: inout Draft, isWord: Bool = true
    ) throws -> String? {
        try reader.readNull() ? nil : text(name, &reader, &draft, isWord: isWord)
    }

    private func integer(_ name: String, _ reader: inout JSONReader, _ draft: inout Draft) throws -> Int64? {
        do {
            return try reader.readInt()
        } catch {
            guard error.kind == .wrongType || error.kind == .numberDoesNotFit else { throw error }
        }
        draft.refuse("\(name) is no integer of 64 bits")
        try reader.skipValue()
        return nil
    }

    // MARK: - Fields

    private func fields(_ reader: inout JSONReader, _ draft: inout Draft) throws {
        if try reader.readNull() { return }
        guard try reader.peek() == .object else {
            draft.refuse("fields is no object")
            try reader.skipValue()
            return
        }
        var isSorted = true
        try reader.beginObject()
        while let name = try reader.nextKey() {
            if let unfit = reader.takeUnfit() { draft.refuse(Self.fault(unfit)) }
            guard try reader.peek() == .object else {
                draft.refuse("the field is no object", field: name)
                try reader.skipValue()
                continue
            }
            if let last = draft.fields.last, name < last.name { isSorted = false }
            try field(name, &reader, &draft)
        }
        if !isSorted { draft.fields.sort { $0.name < $1.name } }
    }

    private func field(_ name: String, _ reader: inout JSONReader, _ draft: inout Draft) throws {
        var field = IncomingChange.Field(name: name, old: nil, new: .null, rule: .lastWriter, stamp: .zero)
        var hasNew = false
        try reader.beginObject()
        while let member = try reader.nextKey() {
            switch member {
            case "old": field.old = try value(of: name, &reader, &draft)
            case "new":
                field.new = try value(of: name, &reader, &draft)
                hasNew = true
            case "rule":
                switch try optionalText("rule", &reader, &draft) {
                case nil: break
                case "sum": field.rule = .sum
                case "union": field.rule = .union
                case "check": field.rule = .check
                default: draft.refuse("the rule is not known", field: name)
                }
            case "stamp":
                guard let text = try optionalText("stamp", &reader, &draft) else { break }
                if let stamp = Stamp(text) {
                    draft.ownStamps[name] = stamp
                } else {
                    draft.refuse("the field's stamp is none", field: name)
                }
            default:
                try reader.skipValue()
                _ = reader.takeUnfit()
            }
        }
        if !hasNew { draft.refuse("the field has no new value", field: name) }
        draft.fields.append(field)
    }

    private func value(of name: String, _ reader: inout JSONReader, _ draft: inout Draft) throws -> FieldValue {
        _ = try reader.peek()
        let start = reader.offset
        let value = try reader.readValue()
        // White space and escapes only make it longer, so most need no second look.
        if reader.offset - start > limits.fieldBytes, size(of: value) > limits.fieldBytes {
            draft.refuse("the field has more than \(limits.fieldBytes) bytes", field: name, code: .tooLarge)
        }
        if let unfit = reader.takeUnfit() { draft.refuse(Self.fault(unfit), field: name) }
        return value
    }

    private func size(of value: FieldValue) -> Int {
        var writer = JSONWriter()
        do {
            try writer.value(value)
            return writer.count
        } catch {
            // A number without a form was refused already.
            return .max
        }
    }

    // MARK: - The whole

    private func finish(_ draft: inout Draft, id: String, size: Int) -> DirtyRecord {
        let madeBy = draft.device ?? device
        // The request's own was looked at with the request.
        let (isKey, isDevice) = (RecordID.isID(id), draft.device.map(RecordID.isID) ?? true)
        if !isKey { draft.refuse("the changeID is no id") }
        if !isDevice { draft.refuse("the deviceID is no id") }
        check(&draft)
        var isClamped = false
        let ownStamp = clamp(draft.stamp ?? .zero, &isClamped)
        let digest = digest(of: draft)
        var nameless: ContentDigest?
        if let naming { nameless = self.digest(of: draft, without: naming[draft.entity ?? ""]?.references ?? []) }
        for index in draft.fields.indices {
            let own = draft.ownStamps.isEmpty ? nil : draft.ownStamps[draft.fields[index].name]
            draft.fields[index].stamp = own.map { clamp($0, &isClamped) } ?? ownStamp
        }
        var record: RecordKey?
        if let entity = draft.entity, let recordID = draft.recordID { record = RecordKey(entity, recordID) }
        let content: DirtyRecord.Content
        if draft.fault == nil, let record, let sequence = draft.sequence, let operation = draft.operation {
            var change = IncomingChange(
                id: id, device: madeBy, sequence: sequence, record: record, operation: operation, stamp: ownStamp,
                baseVersion: draft.baseVersion, fields: draft.fields, unit: draft.unit, intent: draft.intent)
            change.isClamped = isClamped
            change.size = size
            content = .change(change)
        } else {
            content = .malformed(draft.fault ?? Rejection(code: .invalid, message: "the change is not whole"))
        }
        // Without a key, a device and a sequence that are such, nothing can be stored.
        let canStore = isKey && isDevice
        return DirtyRecord(
            changeID: id, device: madeBy, sequence: draft.sequence.flatMap { $0 > 0 && canStore ? $0 : nil },
            record: record,
            isCreate: draft.operation == .create, unit: draft.unit, intent: draft.intent, digest: digest,
            namelessDigest: nameless, content: content)
    }

    private func check(_ draft: inout Draft) {
        if draft.sequence.map({ $0 < 1 }) ?? true { draft.refuse("the sequence is missing, or below 1") }
        if draft.entity == nil { draft.refuse("the entity is missing") }
        if draft.operation == nil { draft.refuse("the operation is missing") }
        if draft.stamp == nil { draft.refuse("the stamp is missing") }
        if let base = draft.baseVersion, base < 0 { draft.refuse("the baseVersion is below 0") }
        if let unit = draft.unit, unit.isEmpty { draft.refuse("the transaction is empty") }
        if draft.recordID.map({ !RecordID.isAllowed($0) }) ?? true {
            draft.refuse("the id is missing, or none (a UUID is written in lower case)")
        }
        if draft.operation == .delete, !draft.fields.isEmpty { draft.refuse("a delete has no fields") }
        guard draft.operation != .create else { return }
        for field in draft.fields {
            switch field.rule {
            case .lastWriter, .check: continue
            case .sum where Number.difference(old: field.old, new: field.new) == nil:
                draft.refuse("a sum is of numbers, and within 64 bits", field: field.name)
            case .union where SetDifference(old: field.old, new: field.new) == nil:
                draft.refuse("a union is of arrays of distinct scalars", field: field.name)
            case .sum, .union: continue
            }
        }
    }

    /// A stamp more than the allowed time ahead counts as now.
    private func clamp(_ stamp: Stamp, _ isClamped: inout Bool) -> Stamp {
        guard stamp.milliseconds > UInt64(max(0, nowMilliseconds + limits.stampAhead)) else { return stamp }
        isClamped = true
        return Stamp(milliseconds: UInt64(max(0, nowMilliseconds)), counter: 0)
    }

    /// What the same key must say again: everything but `baseVersion` and `deviceID`.
    /// - Parameter names: fields that are left out, as is the record's id; `nil` leaves out nothing.
    private func digest(of draft: Draft, without names: [ServerEntity.Reference]? = nil) -> ContentDigest {
        var digest = ContentDigest()
        digest.add(optional: draft.entity)
        if names == nil { digest.add(optional: draft.recordID) }
        digest.add(optional: draft.operation?.rawValue)
        digest.add(stamp: draft.stamp)
        digest.add(optional: draft.unit)
        digest.add(optional: draft.intent)
        digest.add(number: draft.sequence ?? 0)
        digest.add(number: draft.schemaVersion)
        // By their places: a loop over the fields would copy each of them.
        for index in draft.fields.indices {
            digest.add(text: draft.fields[index].name)
            digest.add(text: draft.fields[index].rule.rawValue)
            let own = draft.ownStamps.isEmpty ? nil : draft.ownStamps[draft.fields[index].name]
            digest.add(text: own?.description ?? "")
            if let names, names.contains(where: { $0.field == draft.fields[index].name }) { continue }
            digest.add(byte: draft.fields[index].old == nil ? 0 : 1)
            digest.add(value: draft.fields[index].old ?? .null)
            digest.add(value: draft.fields[index].new)
        }
        digest.add(byte: draft.fault == nil ? 0 : 1)
        return digest
    }
}
