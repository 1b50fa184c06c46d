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

    /// Whether it proves that the server itself spoke.
    var isProof: Bool { code != nil || record != nil }

    /// The problem in a body; `nil` if it is none: the wrong type, no whole JSON object.
    ///
    /// - Parameter codeMember: the member that holds the code of an error in plain JSON, for a server that knows no
    ///   problem+json.
    init?(_ body: AnswerBody, mediaType: String?, codeMember: String? = nil) {
        let isPlain = mediaType == "application/json" && codeMember != nil
        guard mediaType == "application/problem+json" || isPlain, body.count > 0 else { return nil }
        var reader = JSONReader(body.bytes)
        reader.refusesUnfitNumbers = false
        do throws(JSONFailure) {
            guard case .object(let members) = try reader.readValue() else { return nil }
            try reader.finish()
            code = Self.text(members[isPlain ? codeMember ?? "code" : "code"])
            epoch = Self.text(members["epoch"])
            detail = Self.text(members["detail"]) ?? Self.text(members["title"]) ?? Self.text(members["message"])
            field = Self.text(members["field"])
            reference = Self.text(members["reference"])
            record = members["record"]
        } catch {  // kept: a body that is no problem: the status alone counts
            return nil
        }
    }

    private static func text(_ value: FieldValue?) -> String? {
        guard case .string(let text)? = value else { return nil }
        return text
    }
}
