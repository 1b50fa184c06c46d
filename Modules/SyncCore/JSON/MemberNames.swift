/// The names that the open objects have told so far, to find one that is told twice.
///
/// Names are compared as Swift compares strings, since a dictionary could not hold both. A few are compared one by one;
/// many go into a set, whose hashes are seeded for each process, so that chosen names cost no more than others.
struct MemberNames: Sendable {
    private static let few = 12

    /// A name as it stands in the bytes: ASCII, without escapes.
    private struct Plain: Sendable {
        var start: Int
        var count: Int
    }

    /// One open object.
    private struct Scope: Sendable {
        /// Where its plain names begin.
        var start: Int
        /// Its names that are not plain.
        var unusual: [String] = []
        /// All of its names, once they are many.
        var many: Set<String>?

        var isPlain: Bool { many == nil && unusual.isEmpty }
    }

    private var scopes: [Scope] = []
    /// The plain names of all open objects, one object's behind the other's.
    private var plain: [Plain] = []

    /// How many objects are open.
    var openCount: Int { scopes.count }

    /// An object begins.
    mutating func open() { scopes.append(Scope(start: plain.count)) }

    /// The last object has ended.
    mutating func close() { plain.removeLast(plain.count - scopes.removeLast().start) }

    /// Adds a name of the last object; `false` if it was there. `text` is needed where the token has escapes or is not
    /// ASCII.
    mutating func insert(_ token: StringToken, _ text: String?, _ base: UnsafePointer<UInt8>) -> Bool {
        let start = scopes[scopes.count - 1].start
        guard scopes[scopes.count - 1].isPlain, token.isASCII, !token.hasEscapes, plain.count - start < Self.few else {
            var scope = scopes.removeLast()
            let isNew = insertRare(token, text, &scope, base)
            scopes.append(scope)
            return isNew
        }
        let name = Plain(start: token.start, count: token.end - token.start)
        var index = start
        while index < plain.count {
            let other = plain[index]
            if other.count == name.count, Self.equal(base + other.start, base + name.start, name.count) {
                return false
            }
            index += 1
        }
        plain.append(name)
        return true
    }

    @inline(never)
    private func insertRare(
        _ token: StringToken, _ text: String?, _ scope: inout Scope, _ base: UnsafePointer<UInt8>
    ) -> Bool {
        let name = text ?? Self.text(Plain(start: token.start, count: token.end - token.start), base)
        if scope.many != nil { return scope.many?.insert(name).inserted ?? false }
        let known = plain[scope.start...].map { Self.text($0, base) }
        if known.contains(name) || scope.unusual.contains(name) { return false }
        scope.unusual.append(name)
        if known.count + scope.unusual.count > Self.few { scope.many = Set(known).union(scope.unusual) }
        return true
    }

    private static func text(_ name: Plain, _ base: UnsafePointer<UInt8>) -> String {
        String(decoding: UnsafeBufferPointer(start: base + name.start, count: name.count), as: UTF8.self)
    }

    @inline(__always)
    private static func equal(_ a: UnsafePointer<UInt8>, _ b: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        var index = 0
        while index < count {
            if a[index] != b[index] { return false }
            index += 1
        }
        return true
    }
}
