import HTTPTypes

extension HTTPFields {
    /// The media type in lower case, without parameters; `nil` if there is none, or if several disagree.
    var mediaType: String? { BodyFacts(self).mediaType }
}

/// What the head of an answer says about its body, read in one pass over its fields.
struct BodyFacts: Sendable, Hashable {
    /// The media type in lower case, without parameters; `nil` if there is none, or if several disagree.
    private(set) var mediaType: String?
    /// `Content-Length`, where it is told once and is a number.
    private(set) var length: Int?
    /// Whether `Transfer-Encoding` is told, beside which a length counts for nothing.
    private(set) var isTransferEncoded = false
    /// The content codings in their order, in lower case, without `identity`.
    private(set) var codings: [String] = []

    init(_ fields: HTTPFields) {
        var types = 0
        var lengths = 0
        for field in fields {
            switch field.name {
            case .contentType:
                let type = Self.mediaType(field.value)
                mediaType = types == 0 || type == mediaType ? type : nil
                types += 1
            case .contentLength:
                lengths += 1
                length = lengths == 1 ? Int(field.value) : nil
            case .transferEncoding: isTransferEncoded = true
            case .contentEncoding:
                codings += field.value.split(separator: ",")
                    .map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
                    .filter { $0 != "identity" && !$0.isEmpty }
            default: break
            }
        }
    }

    private static func mediaType(_ line: String) -> String {
        // Nearly every answer's.
        if line == "application/json" { return line }
        let bytes = line.utf8.prefix { $0 != UInt8(ascii: ";") }.filter { $0 != 0x20 && $0 != 0x09 }
        return String(decoding: bytes, as: UTF8.self).lowercased()
    }
}
