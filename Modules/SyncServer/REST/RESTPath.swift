internal import SyncCore

/// What a path of PROTOCOL.md, section 2, names.
enum RESTPath: Sendable, Hashable {
    /// `/1/cards`
    case collection(entity: String)
    /// `/1/cards/ID`
    case record(RecordKey)
    /// `/1/lists/ID/cards`
    case children(of: RecordKey, entity: String)
    /// `/1/lists/ID/cards/ID`
    case child(RecordKey, of: RecordKey)

    init?(_ path: String, entities: [ServerEntity]) {
        guard FormCoding.isASCII(path) else { return nil }
        var parts = path.split(separator: "/", omittingEmptySubsequences: false).map { FormCoding.decode(String($0)) }
        guard parts.first == "" else { return nil }
        parts.removeFirst()
        if parts.last == "" { parts.removeLast() }
        guard parts.count >= 2, parts.count <= 5, parts[0] == "1", !parts.contains(nil) else { return nil }
        let names = parts.compactMap { $0 }
        guard names.allSatisfy(\.isStreamSafe) else { return nil }
        let entity = { (name: String) in entities.first { $0.collection == name }?.name }
        guard let first = entity(names[1]) else { return nil }
        switch names.count {
        case 2: self = .collection(entity: first)
        case 3: self = .record(RecordKey(first, names[2]))
        default:
            guard let second = entity(names[3]) else { return nil }
            let parent = RecordKey(first, names[2])
            self =
                names.count == 4
                ? .children(of: parent, entity: second) : .child(RecordKey(second, names[4]), of: parent)
        }
    }
}

/// `application/x-www-form-urlencoded` (WHATWG URL, section 5), and percent-encoding in paths.
enum FormCoding {
    struct Item: Sendable, Hashable {
        var name: String
        var value: String
    }

    /// Whether it is written in ASCII, as whatever is percent-encoded; else it would take long to take some of it apart.
    static func isASCII(_ text: String) -> Bool { text.utf8.allSatisfy { $0 < 0x80 } }

    /// The items of a query, in order; `nil` if one is no UTF-8 or a percent sign stands alone.
    static func items(_ query: String) -> [Item]? {
        guard isASCII(query) else { return nil }
        var items: [Item] = []
        for part in query.split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decode(String(sides[0]), plusIsSpace: true),
                let value = decode(sides.count > 1 ? String(sides[1]) : "", plusIsSpace: true)
            else { return nil }
            items.append(Item(name: name, value: value))
        }
        return items
    }

    /// The path in the one way of writing it that encodes only what it must, since a proxy may write it in another; as it is, if
    /// it cannot be read.
    static func plainest(path: String) -> String {
        var parts = path.split(separator: "/", omittingEmptySubsequences: false).map { decode(String($0)) }
        if parts.count > 1, parts.last == "" { parts.removeLast() }
        guard !parts.contains(nil) else { return path }
        return parts.compactMap { $0.map { encoded($0, "%/") } }.joined(separator: "/")
    }

    /// The same of a query, its items in their order.
    static func plainest(query: String) -> String {
        guard let items = items(query) else { return query }
        return items.map { encoded($0.name, "%&=+") + "=" + encoded($0.value, "%&=+") }.joined(separator: "&")
    }

    private static func encoded(_ text: String, _ reserved: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            if reserved.utf8.contains(byte) {
                let digits = String(byte, radix: 16, uppercase: true)
                bytes += [UInt8(ascii: "%")] + Array(digits.utf8)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func decode(_ text: String, plusIsSpace: Bool = false) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
