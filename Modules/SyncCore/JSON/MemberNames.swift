/// The names that an object has told so far, to find one that is told twice.
///
/// Names are compared as Swift compares strings, since a dictionary could not hold both. A few are compared one by one;
/// many go into a set, whose hashes are seeded for each process, so that chosen names cost no more than others.
struct MemberNames: Sendable {
    private static let few = 12

    private struct Plain: Sendable {
        var start: Int
        var count: Int
    }

    private var plain: [Plain] = []
    private var unusual: [String] = []
    private var many: Set<String>?

    /// Adds a name; `false` if it was there. `text` is needed where the token has escapes or is not ASCII.
    mutating func insert(_ token: StringToken, _ text: String?, _ base: UnsafePointer<UInt8>) -> Bool {
        if many != nil {
            return many!.insert(text ?? Self.text(token.start, token.end - token.start, base)).inserted
        }
        if token.isASCII, !token.hasEscapes {
            let name = Plain(start: token.start, count: token.end - token.start)
            for other in plain where other.count == name.count {
                if Self.equal(base + other.start, base + name.start, name.count) { return false }
            }
            if !unusual.isEmpty, unusual.contains(Self.text(name.start, name.count, base)) {
                return false
            }
            plain.append(name)
        } else {
            let name = text ?? ""
            if unusual.contains(name) { return false }
            if plain.contains(where: { Self.text($0.start, $0.count, base) == name }) { return false }
            unusual.append(name)
        }
        if plain.count + unusual.count > Self.few {
            many = Set(unusual).union(plain.map { Self.text($0.start, $0.count, base) })
        }
        return true
    }

    private static func text(_ start: Int, _ count: Int, _ base: UnsafePointer<UInt8>) -> String {
        String(decoding: UnsafeBufferPointer(start: base + start, count: count), as: UTF8.self)
    }

    @inline(__always)
    private static func equal(_ a: UnsafePointer<UInt8>, _ b: UnsafePointer<UInt8>, _ count: Int)
        -> Bool
    {
        for index in 0..<count where a[index] != b[index] { return false }
        return true
    }
}
