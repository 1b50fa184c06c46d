/// Who may come in: the lines of a tokens file, as a value.
///
/// A line is `token account`, separated by spaces or tabs; empty lines and lines that begin with `#` are skipped.
/// Finding a token takes a time that tells nothing of the tokens: the way to an entry goes over a hash with a secret
/// that is new in each process, and what is compared there is compared whole.
struct TokenTable: Sendable {
    private struct Entry: Sendable {
        let token: [UInt8]
        let account: String
    }

    private var entries: [Int: [Entry]] = [:]
    private(set) var count = 0
    /// Numbers of lines that are neither; what stands in them is told to nobody.
    private(set) var strangeLines: [Int] = []

    init() {}

    init(_ text: String) {
        // Some editors begin a file with a byte order mark, which nobody sees.
        let text = text.unicodeScalars.first == "\u{FEFF}" ? String(text.unicodeScalars.dropFirst()) : text
        // Texts that differ only in how their accents are composed look the same to whoever writes the file, and are equal to
        // Swift; the database tells them apart. The first form counts, a line with another is none.
        var accounts: [String: Substring] = [:]
        // A carriage return and a line feed are one character, and not the line feed.
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let words = line.split(whereSeparator: \.isWhitespace)
            guard let first = words.first, !first.hasPrefix("#") else { continue }
            guard words.count == 2 || words.dropFirst(2).first?.hasPrefix("#") == true,
                account(of: first.utf8) == nil,
                accounts[String(words[1]), default: words[1]].utf8.elementsEqual(words[1].utf8)
            else {
                strangeLines.append(index + 1)
                continue
            }
            accounts[String(words[1])] = words[1]
            let token = Array(first.utf8)
            entries[Self.secretHash(token), default: []].append(Entry(token: token, account: String(words[1])))
            count += 1
        }
    }

    /// The token's account; nil for a token that is not there.
    func account(of token: some Collection<UInt8>) -> String? {
        let token = Array(token)
        var found: String?
        for entry in entries[Self.secretHash(token)] ?? [] where Self.areEqual(entry.token, token) {
            found = entry.account
        }
        return found
    }

    private static func secretHash(_ bytes: [UInt8]) -> Int {
        var hasher = Hasher()
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }

    private static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one.count == other.count else { return false }
        return zip(one, other).reduce(into: UInt8(0)) { $0 |= $1.0 ^ $1.1 } == 0
    }
}
