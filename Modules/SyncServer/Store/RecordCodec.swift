internal import SyncCore

/// A record's state as two texts: `fields`, what readers see, ready for the wire; and `writes`, where each value came
/// from, which is left out wherever it came with the record's create.
enum RecordCodec {
    /// What was kept cannot be read: the file is damaged, or was changed by hand.
    struct Damaged: Error, Sendable { var reason: String }

    // MARK: - Writing

    static func fields(of state: RecordState) throws(JSONFailure) -> TextBytes {
        var writer = JSONWriter(capacity: 512)
        try state.fields.write(into: &writer)
        return TextBytes(bytes: writer.takeBytes())
    }

    static func writes(of state: RecordState) throws(JSONFailure) -> TextBytes {
        var writer = JSONWriter(capacity: 128)
        try state.writeOrigins(into: &writer)
        return TextBytes(bytes: writer.takeBytes())
    }

    fileprivate static func field(_ field: FieldState, _ writer: inout JSONWriter) throws(JSONFailure) {
        writer.beginObject()
        tag("t", field.plainTag, &writer)
        if !field.isPlain {
            writer.key("p")
            try writer.value(field.plain)
        }
        if let sums = field.sums {
            writer.key("s")
            writer.beginArray()
            for entry in sums.entries {
                tag(entry.tag, &writer)
                try writer.value(entry.difference.kept)
            }
            writer.endArray()
        }
        if let elements = field.elements {
            writer.key("e")
            writer.beginArray()
            for entry in elements.entries {
                try writer.value(entry.element)
                writer.bool(entry.isPresent)
                tag(entry.tag, &writer)
                writer.beginArray()
                for put in entry.puts {
                    tag(put.tag, &writer)
                    writer.int(Int64(put.index))
                }
                writer.endArray()
            }
            writer.endArray()
        }
        writer.endObject()
    }

    fileprivate static func tag(_ name: String, _ tag: WriteTag?, _ writer: inout JSONWriter) {
        guard let tag else { return }
        writer.key(name)
        self.tag(tag, &writer)
    }

    private static func tag(_ tag: WriteTag, _ writer: inout JSONWriter) {
        writer.beginArray()
        writer.int(Int64(bitPattern: tag.stamp.packed))
        writer.string(tag.device)
        writer.int(tag.sequence)
        writer.endArray()
    }

    // MARK: - Reading

    /// - Parameter device: the device that the last record read was made by, and then this one: nearly all have the same.
    static func state(fields: JSONBytes, writes: JSONBytes, device: inout String) throws -> RecordState {
        // Most were never written again after their create.
        if let created = writes.withBytes(0..<writes.count, { createAlone($0, &device) }) {
            return try state(fields: fields, created: created)
        }
        var created: WriteTag?
        var deleted: WriteTag?
        var firstDeleted: WriteTag?
        var namedBelow: [String] = []
        var special: JSONReader?
        var reader = JSONReader(writes, maximumDepth: FieldList.depth)
        try reader.beginObject()
        while let name = try reader.nextKey() {
            switch name {
            case "c": created = try tag(&reader)
            case "d": deleted = try tag(&reader)
            case "x": firstDeleted = try tag(&reader)
            case "l":
                try reader.beginArray()
                while try reader.nextElement() { namedBelow.append(try reader.readString()) }
            // Earlier versions wrote the nulls of a create that began the record anew into the fields themselves.
            case "r": _ = try tag(&reader)
            case "f":
                special = reader
                try reader.skipObject()
            default: throw Damaged(reason: "an unknown member \(name)")
            }
        }
        var list = try list(fields, at: created)
        if var special {
            try special.beginObject()
            while let name = try special.nextKey() {
                let (index, isFound) = list.place(of: name)
                let field = try field(name, isFound ? list[index].value : .null, &special)
                if isFound { list[index] = field }
            }
        }
        return RecordState(
            created: created, deleted: deleted, firstDeleted: firstDeleted ?? deleted, namedBelow: namedBelow,
            fields: list)
    }

    private static func list(_ fields: JSONBytes, at created: WriteTag?) throws -> FieldList {
        if let kept = try FieldList(kept: fields, at: created) { return kept }
        var all: [FieldState] = []
        var reader = JSONReader(fields, maximumDepth: FieldList.depth)
        try reader.beginObject()
        while let name = try reader.nextKey() {
            all.append(FieldState(name: name, written: try reader.readValue(), at: created))
        }
        return FieldList(all)
    }

    /// The state of a record that was never written again after its create.
    static func state(fields: JSONBytes, created: WriteTag) throws -> RecordState {
        RecordState(
            created: created, deleted: nil, firstDeleted: nil, namedBelow: [], fields: try list(fields, at: created))
    }

    /// The create, where `writes` has nothing else, written as it is here; else `nil`, and nothing is said of it.
    static func createAlone(_ writes: UnsafeRawBufferPointer, _ device: inout String) -> WriteTag? {
        var text = PlainText(writes)
        guard text.take("{\"c\":["), let stamp = text.takeInteger(), text.take(",\"") else { return nil }
        let isLast = device.withUTF8 { text.take(UnsafeRawBufferPointer($0)) } && text.take("\",")
        if !isLast {
            text = PlainText(writes)
            guard text.take("{\"c\":["), text.takeInteger() != nil, text.take(",\""), let name = text.takeID(),
                text.take("\",")
            else { return nil }
            device = String(decoding: name, as: UTF8.self)
        }
        guard let sequence = text.takeInteger(), text.take("]}"), text.isAtEnd else { return nil }
        return WriteTag(stamp: Stamp(packed: UInt64(bitPattern: stamp)), device: device, sequence: sequence)
    }

    private static func field(
        _ name: String, _ value: FieldValue, _ reader: inout JSONReader
    ) throws -> FieldState {
        var plainTag: WriteTag?
        var plain: FieldValue?
        var sums: [SumLog.Entry]?
        var elements: [ElementLog.Entry]?
        try reader.beginObject()
        while let member = try reader.nextKey() {
            switch member {
            case "t": plainTag = try tag(&reader)
            case "p": plain = try reader.readValue()
            case "s": sums = try self.sums(&reader)
            case "e": elements = try self.elements(&reader)
            default: throw Damaged(reason: "an unknown member \(member)")
            }
        }
        return FieldState(
            name: name, plain: plain ?? value, plainTag: plainTag, sums: sums.map { SumLog(entries: $0) },
            elements: elements.map { ElementLog(entries: $0) })
    }

    private static func sums(_ reader: inout JSONReader) throws -> [SumLog.Entry] {
        var entries: [SumLog.Entry] = []
        try reader.beginArray()
        while try reader.nextElement() {
            let tag = try tag(&reader)
            guard try reader.nextElement(), let number = Number(kept: try reader.readValue()) else {
                throw Damaged(reason: "a sum without a number")
            }
            entries.append(SumLog.Entry(tag: tag, difference: number))
        }
        return entries
    }

    private static func elements(_ reader: inout JSONReader) throws -> [ElementLog.Entry] {
        var entries: [ElementLog.Entry] = []
        try reader.beginArray()
        while try reader.nextElement() {
            let element = try reader.readValue()
            guard try reader.nextElement() else { throw Damaged(reason: "half an element") }
            let isPresent = try reader.readBool()
            guard try reader.nextElement() else { throw Damaged(reason: "half an element") }
            let tag = try tag(&reader)
            guard try reader.nextElement() else { throw Damaged(reason: "half an element") }
            entries.append(
                ElementLog.Entry(element: element, isPresent: isPresent, tag: tag, puts: try puts(&reader)))
        }
        return entries
    }

    private static func puts(_ reader: inout JSONReader) throws -> [ElementLog.Put] {
        var puts: [ElementLog.Put] = []
        try reader.beginArray()
        while try reader.nextElement() {
            let tag = try tag(&reader)
            guard try reader.nextElement() else { throw Damaged(reason: "half a putting in") }
            puts.append(ElementLog.Put(tag: tag, index: Int(try reader.readInt())))
        }
        return puts
    }

    private static func tag(_ reader: inout JSONReader) throws -> WriteTag {
        try reader.beginArray()
        guard try reader.nextElement() else { throw Damaged(reason: "a write without a stamp") }
        let stamp = Stamp(packed: UInt64(bitPattern: try reader.readInt()))
        guard try reader.nextElement() else { throw Damaged(reason: "a write without a device") }
        let device = try reader.readString()
        guard try reader.nextElement() else { throw Damaged(reason: "a write without a sequence") }
        let sequence = try reader.readInt()
        guard try !reader.nextElement() else { throw Damaged(reason: "a write with too much") }
        return WriteTag(stamp: stamp, device: device, sequence: sequence)
    }
}

extension RecordState {
    /// Where each value came from: the text `writes`.
    func writeOrigins(into writer: inout JSONWriter) throws(JSONFailure) {
        writer.beginObject()
        RecordCodec.tag("c", created, &writer)
        RecordCodec.tag("d", deleted, &writer)
        if firstDeleted != deleted { RecordCodec.tag("x", firstDeleted, &writer) }
        if !namedBelow.isEmpty {
            writer.key("l")
            writer.beginArray()
            for name in namedBelow { writer.string(name) }
            writer.endArray()
        }
        let special = fields.special(besides: created)
        if !special.isEmpty {
            writer.key("f")
            writer.beginObject()
            for field in special {
                writer.key(field.name)
                try RecordCodec.field(field, &writer)
            }
            writer.endObject()
        }
        writer.endObject()
    }
}
