internal import NIOCore
internal import NIOHTTP1

/// What a request says of itself before anybody reads it whole.
enum RequestWords {
    /// How many bytes a `Content-Length` speaks of: the greatest number where it speaks of more than one can hold, and `nil` where
    /// it is no number.
    static func length(_ field: String) -> Int? {
        if let length = Int(field) { return length }
        let isNumber = !field.isEmpty && field.utf8.allSatisfy { (0x30...0x39).contains($0) }
        return isNumber ? .max : nil
    }

    /// What the path of a request has, if these bytes begin with a whole request line whose method is none that the parser
    /// knows; `nil` for all else. The parser tells of such a method and of garbage in the same words.
    static func methods(insteadOfUnknown bytes: ByteBuffer) -> [String]? {
        let line = bytes.readableBytesView.prefix { $0 != 0x0d && $0 != 0x0a }
        let words = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, words[2].starts(with: "HTTP/1.".utf8), isToken(words[0]),
            case .RAW = HTTPMethod(rawValue: String(decoding: words[0], as: UTF8.self))
        else { return nil }
        let path = String(decoding: words[1].prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
        return RouteName(path: path).methods ?? ["GET", "HEAD", "POST", "PUT", "DELETE"]
    }

    /// RFC 9110, section 5.6.2.
    private static func isToken(_ word: ByteBufferView) -> Bool {
        let marks = "!#$%&'*+-.^_`|~".utf8
        return !word.isEmpty
            && word.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
                default: marks.contains(byte)
                }
            }
    }
}
