/// The orders in which objects have told their names so far, as a tree from the first name on.
///
/// Objects of one kind mostly name the same members in the same order, so an object walks a path that is there: each
/// name is found by comparing a few bytes, without scanning, making or hashing it, and that none is told twice was
/// checked when the path was made. The tree is bounded; an object that leaves it is checked by ``MemberNames``.
struct NameTree: Sendable {
    /// No node.
    static let none: Int32 = -1
    /// Where every object begins.
    static let root: Int32 = 0

    private static let mostNodes = 256
    private static let mostChildren = 8
    private static let mostNames = 64

    /// A name behind the names of its parents. All of it is plain numbers, so that reading one counts no references.
    private struct Node: Sendable {
        /// The first eight bytes of the name and the quote behind it, and which of them count.
        var head: UInt64 = 0
        var mask: UInt64 = 0
        /// The name in the reader's bytes, without quotes.
        var start = 0
        var length = 0
        /// The place of the name within its object, from 0 on.
        var place: Int32 = -1
        var parent = NameTree.none
        var child = NameTree.none
        var sibling = NameTree.none
        var children: Int32 = 0
        /// Without escapes, and ASCII.
        var isPlain = true
        /// The name's place among ``NameTree/tags``.
        var tag: UInt8 = 0
        /// How often objects have ended here: never, once, or more often.
        var ends: UInt8 = 0
    }

    /// What of a node counts references.
    private struct Label: Sendable {
        var text: String
        /// Where objects end often: each name from the first to this one, with its place.
        var template: [String: Int32] = [:]
    }

    /// What became of a name that was not in the tree.
    enum Addition {
        case added(Int32)
        /// The object has told it before.
        case twice
        /// The tree takes no more.
        case full
    }

    /// Names that are asked for by number; at most 255.
    var tags: [String] = []
    private var nodes: ContiguousArray<Node> = []
    private var labels: ContiguousArray<Label> = []

    /// The name at `node`.
    @inline(__always)
    func text(_ node: Int32) -> String { labels[Int(node)].text }

    /// The place of the name at `node` among ``tags``, from 1 on; 0 if it is none of them.
    @inline(__always)
    func tag(_ node: Int32) -> Int { Int(nodes[Int(node)].tag) }

    /// The place of a name among ``tags``, from 1 on; 0 if it is none of them.
    func tag(of name: String) -> Int { tags.firstIndex(of: name).map { $0 + 1 } ?? 0 }

    /// How many bytes the name has, without its quotes.
    @inline(__always)
    func length(_ node: Int32) -> Int { nodes[Int(node)].length }

    /// The node behind `node` whose name, and the quote at its end, stand at `position`.
    @inline(__always)
    func next(after node: Int32, at position: Int, _ base: UnsafePointer<UInt8>, _ end: Int) -> Int32 {
        guard !nodes.isEmpty else { return Self.none }
        var candidate = nodes[Int(node)].child
        while candidate >= 0 {
            if stands(candidate, at: position, base, end) { return candidate }
            candidate = nodes[Int(candidate)].sibling
        }
        return Self.none
    }

    @inline(__always)
    private func stands(_ node: Int32, at position: Int, _ base: UnsafePointer<UInt8>, _ end: Int) -> Bool {
        let node = nodes[Int(node)]
        guard position + node.length < end else { return false }
        var index = 0
        if position &+ 8 <= end {
            guard Self.load(base + position) & node.mask == node.head else { return false }
            index = 8
        }
        // The quote behind the name stands in the bytes here and there.
        while index <= node.length {
            if base[node.start + index] != base[position + index] { return false }
            index += 1
        }
        return true
    }

    /// Adds a name behind `node`.
    mutating func add(
        _ text: String, _ token: StringToken, after node: Int32, _ base: UnsafePointer<UInt8>
    ) -> Addition {
        if nodes.isEmpty {
            nodes.reserveCapacity(16)
            labels.reserveCapacity(16)
            nodes.append(Node())
            labels.append(Label(text: ""))
        }
        var ancestor = node
        while ancestor > Self.root {
            if labels[Int(ancestor)].text == text { return .twice }
            ancestor = nodes[Int(ancestor)].parent
        }
        let parent = nodes[Int(node)]
        guard nodes.count < Self.mostNodes, parent.children < Self.mostChildren, parent.place + 1 < Self.mostNames
        else { return .full }
        var added = Node()
        added.start = token.start
        added.length = token.end - token.start
        added.isPlain = token.isASCII && !token.hasEscapes
        added.place = parent.place + 1
        added.parent = node
        added.tag = UInt8(tag(of: text))
        added.sibling = parent.child
        for index in 0...min(added.length, 7) {
            // The closing quote is the last of them in a short name.
            added.head |= UInt64(base[token.start + index]) << UInt64(index * 8)
            added.mask |= 0xff << UInt64(index * 8)
        }
        let place = Int32(nodes.count)
        nodes.append(added)
        labels.append(Label(text: text))
        nodes[Int(node)].child = place
        nodes[Int(node)].children += 1
        return .added(place)
    }

    /// The names from the first to the one at `node`.
    func path(to node: Int32) -> [(token: StringToken, text: String)] {
        var path: [(StringToken, String)] = []
        var step = node
        while step > Self.root {
            let node = nodes[Int(step)]
            let token = StringToken(
                start: node.start, end: node.start + node.length, hasEscapes: !node.isPlain, isASCII: node.isPlain)
            path.append((token, labels[Int(step)].text))
            step = node.parent
        }
        return path.reversed()
    }

    /// The object that ended at `node`, whose values stand at the end of `values` from `first` on; they are taken away.
    @inline(__always)
    mutating func members(
        endingAt node: Int32, _ values: inout [FieldValue], from first: Int
    ) -> [String: FieldValue] {
        guard nodes[Int(node)].ends > 1 else { return firstMembers(endingAt: node, &values, from: first) }
        let members = values.withUnsafeMutableBufferPointer { values in
            // Neither hashes nor compares: the copy has the shape of the original.
            labels[Int(node)].template.mapValues { place in
                var value = FieldValue.null
                swap(&value, &values[first + Int(place)])
                return value
            }
        }
        values.removeLast(values.count - first)
        return members
    }

    /// The first object that ends somewhere is made name by name; the second leaves a template for all others.
    @inline(never)
    private mutating func firstMembers(
        endingAt node: Int32, _ values: inout [FieldValue], from first: Int
    ) -> [String: FieldValue] {
        var members: [String: FieldValue] = [:]
        var template: [String: Int32] = [:]
        let isOften = nodes[Int(node)].ends > 0
        nodes[Int(node)].ends += 1
        members.reserveCapacity(values.count - first)
        if isOften { template.reserveCapacity(values.count - first) }
        var step = node
        while step > Self.root {
            let (place, text) = (nodes[Int(step)].place, labels[Int(step)].text)
            members[text] = values[first + Int(place)]
            if isOften { template[text] = place }
            step = nodes[Int(step)].parent
        }
        if isOften { labels[Int(node)].template = template }
        values.removeLast(values.count - first)
        return members
    }

    @inline(__always)
    private static func load(_ address: UnsafePointer<UInt8>) -> UInt64 {
        UInt64(littleEndian: UnsafeRawPointer(address).loadUnaligned(as: UInt64.self))
    }
}
