import SyncCore

/// Reads a declared field's value from what somebody typed, or from an export's JSON; refuses another type.
struct FieldReader: Sendable {
    let entity: String
    let field: FieldSchema
    /// Where the value stands, for the sentence; the entity's and field's names if nothing else is said.
    let place: String

    init(entity: String, field: FieldSchema, place: String? = nil) {
        self.entity = entity
        self.field = field
        self.place = place ?? "The field “\(field.name)” of \(entity)"
    }

    /// The value of a text from the command line.
    func value(ofText text: String) throws(Problem) -> FieldValue {
        switch field.kind {
        case .text: return try plain(text)
        case .integer:
            guard let number = Int64(text) else { throw wrong(text, "a whole number of 64 bits, like 5") }
            return .int(number)
        case .real:
            let isPlain = text.utf8.allSatisfy { "0123456789+-.eE".utf8.contains($0) }
            guard isPlain, let number = Double(text), number.isFinite else { throw wrong(text, "a number, like 1.5") }
            return .double(number)
        case .boolean:
            guard let flag = Bool(text) else { throw wrong(text, "true or false") }
            return .bool(flag)
        case .date: return try date(text)
        case .json:
            let value: FieldValue
            do {
                value = try FieldValue(json: text)
            } catch {
                let reason = "at byte \(error.offset), expected \(error.expected)"
                throw wrong(text, "JSON, like [\"a\",\"b\"]", since: reason)
            }
            return try json(value, shown: text)
        case .data: throw wrong(text, "bytes, which cannot be typed")
        }
    }

    /// The value of a JSON value from an export; `null` clears.
    func value(ofJSON value: FieldValue) throws(Problem) -> FieldValue {
        if value.isNull { return try cleared() }
        let shown = JSONText.text(value)
        switch (field.kind, value) {
        case (.text, .string(let text)): return try plain(text)
        case (.integer, .int): return value
        case (.real, .int(let number)): return .double(Double(number))
        case (.real, .double): return value
        case (.boolean, .bool): return value
        case (.date, .string(let text)): return try date(text)
        case (.json, _): return try json(value, shown: shown)
        case (.text, _): throw wrong(shown, "a text")
        case (.integer, _): throw wrong(shown, "a whole number of 64 bits")
        case (.real, _): throw wrong(shown, "a number")
        case (.boolean, _): throw wrong(shown, "true or false")
        case (.date, _): throw wrong(shown, "a time like 2026-11-21T08:00:00.123Z")
        case (.data, _): throw wrong(shown, "bytes, which no export has")
        }
    }

    /// `null`, where the field can be without a value.
    func cleared() throws(Problem) -> FieldValue {
        guard !field.isRequired else { throw Problem("\(place) cannot be cleared: a \(entity) needs it.") }
        return .null
    }

    private func plain(_ text: String) throws(Problem) -> FieldValue {
        guard let reference = field.reference else { return .string(text) }
        guard let id = RecordID.read(text) else { throw wrong(text, "the id of a \(reference.entity)") }
        return .string(id)
    }

    private func date(_ text: String) throws(Problem) -> FieldValue {
        guard let time = Timestamp(text) else { throw wrong(text, "a time like 2026-11-21T08:00:00.123Z") }
        return .string(time.description)
    }

    /// A set is an array of distinct scalars (PROTOCOL.md, `union`).
    private func json(_ value: FieldValue, shown: String) throws(Problem) -> FieldValue {
        guard field.rule == .union else { return value }
        guard case .array(let elements) = value else { throw wrong(shown, "an array, like [\"a\",\"b\"]") }
        for (index, element) in elements.enumerated() {
            switch element {
            case .array, .object, .null, .data, .bool: throw wrong(shown, "an array of texts or numbers")
            case .int, .double, .string:
                guard !elements[..<index].contains(where: element.isSame(as:)) else {
                    throw wrong(shown, "an array without repetitions")
                }
            }
        }
        return value
    }

    private func wrong(_ shown: String, _ wanted: String, since reason: String? = nil) -> Problem {
        let short = shown.count > 60 ? String(shown.prefix(60)) + "…" : shown
        return Problem("\(place) must be \(wanted); “\(short)” is not\(reason.map { ": \($0)" } ?? "").")
    }
}
