import SyncCore

/// An error in the contract's shape: problem+json (RFC 9457) with a `code`.
struct Problem: Sendable, Hashable {
    var code: String?
    /// The server's present epoch, beside `epochChanged`.
    var epoch: String?
    /// What people read: `detail`, else `title`.
    var detail: String?
    /// The field and the missing record that a 422 names.
    var field: String?
    var reference: String?
    /// The current record, beside 409 and 412.
    var record: FieldValue?

    /// The problem in a body; `nil` if it is none: the wrong type, no whole JSON object, members of wrong types.
    init?(_ body: AnswerBody, mediaType: String?) {
        guard mediaType == "application/problem+json", body.count > 0 else { return nil }
        var reader = JSONReader(body.bytes)
        reader.refusesUnfitNumbers = false
        do throws(JSONFailure) {
            guard case .object(let members) = try reader.readValue() else { return nil }
            try reader.finish()
            code = Self.text(members["code"])
            epoch = Self.text(members["epoch"])
            detail = Self.text(members["detail"]) ?? Self.text(members["title"])
            field = Self.text(members["field"])
            reference = Self.text(members["reference"])
            record = members["record"]
        } catch {
            return nil
        }
    }

    private static func text(_ value: FieldValue?) -> String? {
        guard case .string(let text)? = value else { return nil }
        return text
    }
}
