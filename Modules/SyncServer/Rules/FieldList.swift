internal import SyncCore

/// A record's fields, in the order of their names.
///
/// Of a record as it was kept, a field that nobody asks for stays the text that it is: most changes are of one field of
/// many, and the others are written as they were read.
struct FieldList: Sendable {
    /// Where a field stands: in the text, or among those that were made.
    private struct Slot: Sendable {
        var name: Range<Int>
        var value: Range<Int>
        /// Its place in ``made``; -1 where only its text is known.
        var place: Int
    }

    /// The members that ``slots`` point into; without it ``made`` has all fields, in their order.
    private var text: JSONBytes?
    private var slots: [Slot] = []
    private var made: [FieldState]
    /// Where the fields of which only the text is known were written: a plain write each.
    private var textTag: WriteTag?

    init(_ fields: [FieldState]) { made = fields }

    /// The fields of a kept record, as if a plain write at one place had made each of them.
    ///
    /// - Parameter text: A JSON object of their values.
    /// - Returns: `nil` where a name is not its own bytes, or they stand in another order: ``JSONReader/nextKey()`` tells.
    /// - Throws: `JSONFailure` for what is no JSON.
    init?(kept text: JSONBytes, at tag: WriteTag?) throws(JSONFailure) {
        var slots: [Slot] = []
        slots.reserveCapacity(16)
        var reader = JSONReader(text, maximumDepth: Self.depth)
        try reader.beginObject()
        read: while true {
            switch try reader.nextPlainKey() {
            case .end: break read
            case .other: return nil
            case .name(let name):
                if let last = slots.last, Self.order(text, last.name, name) >= 0 { return nil }
                slots.append(Slot(name: name, value: try reader.skipValue(), place: -1))
            }
        }
        try reader.finish()
        self.text = text
        self.slots = slots
        made = []
        textTag = tag
    }

    /// What a record may nest in the file: more than a request, which has containers around it.
    static let depth = 128

    // MARK: - Finding

    /// Where a field of that name is, or would be put.
    func place(of name: String) -> (index: Int, isFound: Bool) {
        var wanted = name
        return wanted.withUTF8 { bytes in
            let bytes = UnsafeRawBufferPointer(bytes)
            var isASCII = true
            for byte in bytes where byte >= 0x80 { isASCII = false }
            var low = 0
            var high = count
            while low < high {
                let middle = (low + high) / 2
                let order = order(of: middle, to: name, isASCII ? bytes : nil)
                guard order != 0 else { return (middle, true) }
                if order < 0 { low = middle + 1 } else { high = middle }
            }
            return (low, false)
        }
    }

    /// The order of `String`, which between texts in ASCII is that of their bytes.
    ///
    /// - Parameter bytes: The name's own, where it is in ASCII.
    private func order(of index: Int, to name: String, _ bytes: UnsafeRawBufferPointer?) -> Int {
        if let bytes, let text, slots[index].place < 0 {
            return text.withBytes(slots[index].name) { $0.order(to: bytes) }
        }
        let here = self.name(at: index)
        return here == name ? 0 : here < name ? -1 : 1
    }

    private static func order(_ text: JSONBytes, _ a: Range<Int>, _ b: Range<Int>) -> Int {
        text.withBytes(a) { a in text.withBytes(b) { b in a.order(to: b) } }
    }

    private func name(at index: Int) -> String {
        guard let text else { return made[index].name }
        let slot = slots[index]
        if slot.place >= 0 { return made[slot.place].name }
        return text.withBytes(slot.name) { String(decoding: $0, as: UTF8.self) }
    }

    /// The value of the field there; the field is not made for it.
    func value(at index: Int) -> FieldValue {
        guard let text else { return made[index].value }
        let slot = slots[index]
        guard slot.place < 0 else { return made[slot.place].value }
        return Self.plainText(slot.value, in: text).map { .string($0) } ?? read(slot, in: text).value
    }

    /// How many elements unions have noted of the field there, and the field's plain write has besides; 0 where none have.
    func elementCount(at index: Int) -> Int {
        let place = text == nil ? index : slots[index].place
        return place < 0 ? 0 : made[place].elementCount
    }

    /// A text in ASCII without escapes, which is its own bytes; `nil` for any other value.
    private static func plainText(_ value: Range<Int>, in text: JSONBytes) -> String? {
        text.withBytes(value) { bytes in
            let quote = UInt8(ascii: "\"")
            guard bytes.count >= 2, bytes[0] == quote, bytes[bytes.count - 1] == quote else { return nil }
            let inner = UnsafeRawBufferPointer(rebasing: bytes[1..<bytes.count - 1])
            for byte in inner where byte >= 0x80 || byte == UInt8(ascii: "\\") { return nil }
            return String(decoding: inner, as: UTF8.self)
        }
    }

    // MARK: - Making

    private func read(_ slot: Slot, in text: JSONBytes) -> FieldState {
        if let plain = Self.plainText(slot.value, in: text) {
            return FieldState(
                name: text.withBytes(slot.name) { String(decoding: $0, as: UTF8.self) }, written: .string(plain),
                at: textTag)
        }
        var reader = JSONReader(text, range: slot.value, depth: 1, maximumDepth: Self.depth)
        do {
            return FieldState(
                name: text.withBytes(slot.name) { String(decoding: $0, as: UTF8.self) },
                written: try reader.readValue(), at: textTag)
        } catch {
            preconditionFailure("a value was skipped that cannot be read: \(error)")
        }
    }

    /// Makes the field, if need be; it will be changed.
    /// - Returns: where it stands among those that are made.
    @discardableResult
    mutating func make(_ index: Int) -> Int {
        guard let text else { return index }
        if slots[index].place < 0 {
            made.append(read(slots[index], in: text))
            slots[index].place = made.count - 1
        }
        return slots[index].place
    }

    mutating func insert(_ field: FieldState, at index: Int) {
        guard text != nil else { return made.insert(field, at: index) }
        slots.insert(Slot(name: 0..<0, value: 0..<0, place: made.count), at: index)
        made.append(field)
    }

    // MARK: - All of them

    private var hasTexts: Bool { text != nil && made.count < slots.count }

    /// The place of the last write of any field, if that is after `tag`; else `tag`.
    func greatest(after tag: WriteTag?) -> WriteTag? {
        made.reduce(hasTexts ? tag.latest(textTag) : tag) { $0.latest($1.greatest) }
    }

    /// The highest stamp of any write of a field, if it is above `stamp`; else `stamp`.
    func highestStamp(above stamp: Stamp) -> Stamp {
        made.reduce(hasTexts ? Swift.max(stamp, textTag?.stamp ?? .zero) : stamp) { Swift.max($0, $1.highestStamp) }
    }

    /// The fields of which more is to be kept than a value that was written by `created`, in their order.
    func special(besides created: WriteTag?) -> [FieldState] {
        guard !hasTexts || textTag == created else { return filter { $0.plainTag != created || !$0.isPlain } }
        var found: [FieldState] = []
        // By their places: a loop over the fields would copy each of them.
        for place in made.indices where made[place].plainTag != created || !made[place].isPlain {
            found.append(made[place])
        }
        return text == nil || found.count < 2 ? found : found.sorted { $0.name < $1.name }
    }

    /// The values as a JSON object.
    func write(into writer: inout JSONWriter) throws(JSONFailure) {
        writer.beginObject()
        if let text {
            var index = 0
            while index < slots.count {
                if slots[index].place >= 0 {
                    try write(made: slots[index].place, into: &writer)
                    index += 1
                    continue
                }
                // Neighbours stand in the text as they will stand here.
                let first = index
                while index + 1 < slots.count, slots[index + 1].place < 0 { index += 1 }
                let members = slots[first].name.lowerBound - 1..<slots[index].value.upperBound
                text.withBytes(members) { writer.raw($0) }
                index += 1
            }
        } else {
            for place in made.indices { try write(made: place, into: &writer) }
        }
        writer.endObject()
    }

    private func write(made place: Int, into writer: inout JSONWriter) throws(JSONFailure) {
        writer.key(made[place].name)
        try writer.value(made[place].value)
    }
}

extension FieldList: RandomAccessCollection {
    var startIndex: Int { 0 }
    var endIndex: Int { text == nil ? made.count : slots.count }

    subscript(index: Int) -> FieldState {
        get {
            guard let text else { return made[index] }
            return slots[index].place >= 0 ? made[slots[index].place] : read(slots[index], in: text)
        }
        _modify {
            let place = make(index)
            yield &made[place]
        }
    }
}

extension FieldList: Hashable {
    static func == (a: FieldList, b: FieldList) -> Bool { a.elementsEqual(b) }

    func hash(into hasher: inout Hasher) {
        for field in self { hasher.combine(field) }
    }
}
