/// `If-Match` and `If-None-Match` (RFC 9110, section 13.1), where a record's entity tag is its version in quotes.
enum Preconditions {
    /// Whether a write may go on; `version` is `nil` where nothing is there.
    static func allowsWrite(ifMatch: String?, version: Int64?) -> Bool {
        guard let ifMatch else { return true }
        guard let version else { return false }
        return tags(ifMatch).contains { $0 == "*" || $0 == tag(version) || $0 == "\(version)" }
    }

    /// Whether the reader has it already.
    static func isUnchanged(ifNoneMatch: String?, tag current: String) -> Bool {
        guard let ifNoneMatch else { return false }
        return tags(ifNoneMatch).contains { $0 == "*" || $0 == current || $0 == "W/\(current)" }
    }

    static func tag(_ version: Int64) -> String { "\"\(version)\"" }

    private static func tags(_ header: String) -> [String] {
        header.split(separator: ",").map { part in
            var part = part
            while part.first == " " || part.first == "\t" { part.removeFirst() }
            while part.last == " " || part.last == "\t" { part.removeLast() }
            return String(part)
        }
    }

    /// The text of a structured string (`"changeID"`), or the bare text; `nil` if it is no key.
    static func key(_ header: String) -> String? {
        var text = header[...]
        while text.first == " " { text.removeFirst() }
        while text.last == " " { text.removeLast() }
        if text.count >= 2, text.first == "\"", text.last == "\"" { text = text.dropFirst().dropLast() }
        let isKey =
            !text.isEmpty && text.utf8.count <= 128
            && text.utf8.allSatisfy {
                (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
            }
        return isKey ? String(text) : nil
    }
}
