import SyncCore

/// What of an answer may stand in a message or a log: its beginning, without contents and secrets.
enum Redaction {
    static let length = 200

    /// The first 200 bytes: of JSON the names and the shape, of everything else the text without long words, which may
    /// be tokens, and without what stands behind a question mark.
    static func beginning(of body: AnswerBody) -> String {
        if body.count == 0 { return "nothing" }
        return beginning(of: body.bytes[0..<length], isCut: body.count > length)
    }

    static func beginning(of bytes: [UInt8], isCut: Bool = false) -> String {
        let cut = bytes.prefix(length)
        let first = cut.first { $0 != 0x20 && $0 != 0x0a && $0 != 0x0d && $0 != 0x09 }
        let isJSON = first == UInt8(ascii: "{") || first == UInt8(ascii: "[") || first == UInt8(ascii: "\"")
        return (isJSON ? shape(of: cut) : text(of: cut)) + (isCut || bytes.count > length ? "…" : "")
    }

    /// JSON with every string that is not a member's name taken out.
    private static func shape(of bytes: ArraySlice<UInt8>) -> String {
        var result: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            guard bytes[index] == UInt8(ascii: "\"") else {
                result.append(bytes[index])
                index += 1
                continue
            }
            var end = index + 1
            while end < bytes.endIndex, bytes[end] != UInt8(ascii: "\"") {
                end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1
            }
            end = min(end, bytes.endIndex)
            let next = bytes[min(end + 1, bytes.endIndex)...].first { $0 != 0x20 && $0 != 0x0a }
            if end < bytes.endIndex, next == UInt8(ascii: ":"), end - index <= 40 {
                result.append(contentsOf: bytes[index...end])
            } else {
                result.append(contentsOf: "\"…\"".utf8)
            }
            index = end + 1
        }
        return printable(result)
    }

    private static func text(of bytes: ArraySlice<UInt8>) -> String {
        var words: [Substring] = []
        for word in printable(bytes).split(separator: " ") {
            let kept = word.prefix { $0 != "?" }
            words.append(kept.count < word.count ? kept + "?…" : kept)
        }
        return words.map { $0.utf8.count > 60 || isToken($0) ? "…" : String($0) }.joined(separator: " ")
    }

    /// A long run of letters and digits without any sign of a language or markup in it.
    private static func isToken(_ word: Substring) -> Bool {
        word.utf8.count >= 24 && word.contains { $0.isNumber } && !word.contains { "<>/".contains($0) }
    }

    private static func printable(_ bytes: some Collection<UInt8>) -> String {
        String(
            String(decoding: bytes, as: UTF8.self).unicodeScalars.map { scalar in
                scalar.value < 0x20 || scalar.value == 0x7f ? " " : Character(scalar)
            })
    }
}
