/// What `Accept-Encoding` says of gzip (RFC 9110, section 12.5.3).
enum AcceptedEncoding {
    /// Whether gzip is welcome: named, or covered by `*`, and not with a weight of 0.
    static func takesGzip(_ field: String?) -> Bool {
        guard let field else { return false }
        var byStar = false
        for member in field.split(separator: ",") {
            let parts = member.split(separator: ";").map { $0.trimmed }
            guard let name = parts.first?.lowercased() else { continue }
            let weight =
                parts.dropFirst().first { $0.lowercased().hasPrefix("q=") }
                .map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            if name == "gzip" || name == "x-gzip" { return weight > 0 }
            if name == "*" { byStar = weight > 0 }
        }
        return byStar
    }
}

extension StringProtocol {
    /// Without the spaces and tabs around it.
    var trimmed: SubSequence {
        var text = self[...]
        while let first = text.first, first == " " || first == "\t" { text = text.dropFirst() }
        while let last = text.last, last == " " || last == "\t" { text = text.dropLast() }
        return text
    }
}
