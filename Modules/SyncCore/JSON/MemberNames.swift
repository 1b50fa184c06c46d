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

    /// An object's names that are not plain, and all of its names once they are many.
    struct Rare: Sendable {
        fileprivate var unusual: [String] = []
        fileprivate var many: Set<String>?
    }

    /// One object's place in the stack of names.
    struct Scope: Sendable {
        fileprivate var start: Int
        /// Nothing, or one: most objects need none, and an empty array costs nothing.
        fileprivate var rare: [Rare] = []
    }

    /// The plain names of all open objects, one object's behind the other's.
    private var plain: [Plain] = []

    /// An object begins.
    func open() -> Scope { Scope(start: plain.count) }

    /// An object has ended.
    mutating func close(_ scope: Scope) {
        plain.removeLast(plain.count - scope.start)
    }

    /// Adds a name; `false` if it was there. `text` is needed where the token has escapes or is not ASCII.
    @inline(__always)
    mutating func insert(
        _ token: StringToken, _ text: String?, _ scope: inout Scope, _ base: UnsafePointer<UInt8>
    ) -> Bool {
        guard scope.rare.isEmpty, token.isASCII, !token.hasEscapes, plain.count - scope.start < Self.few else {
            return insertRare(token, text, &scope, base)
        }
        let name = Plain(start: token.start, count: token.end - token.start)
        var index = scope.start
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
    private mutating func insertRare(
        _ token: StringToken, _ text: String?, _ scope: inout Scope, _ base: UnsafePointer<UInt8>
    ) -> Bool {
        if scope.rare.isEmpty { scope.rare = [Rare()] }
        let name = text ?? Self.text(Plain(start: token.start, count: token.end - token.start), base)
        if scope.rare[0].many == nil {
            let known = plain[scope.start...].map { Self.text($0, base) }
            if known.contains(name) || scope.rare[0].unusual.contains(name) { return false }
            scope.rare[0].unusual.append(name)
            if known.count + scope.rare[0].unusual.count > Self.few {
                scope.rare[0].many = Set(known).union(scope.rare[0].unusual)
            }
            return true
        }
        return scope.rare[0].many?.insert(name).inserted ?? false
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
