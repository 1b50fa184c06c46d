internal import SyncCore

/// A record's state as two texts: `fields`, what readers see, ready for the wire; and `writes`, where each value came
/// from, which is left out wherever it came with the record's create.
enum RecordCodec {
    /// What was kept cannot be read: the file is damaged, or was changed by hand.
    struct Damaged: Error, Sendable { var reason: String }

    // MARK: - Writing

    static func fields(of state: RecordState) throws(JSONFailure) -> TextBytes {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        for field in state.fields {
            writer.key(field.name)
            try writer.value(field.value)
        }
        writer.endObject()
        return TextBytes(bytes: writer.bytes)
    }

    static func writes(of state: RecordState) throws(JSONFailure) -> TextBytes {
        var writer = JSONWriter(capacity: 128)
        writer.beginObject()
        tag("c", state.created, &writer)
        tag("d", state.deleted, &writer)
        if state.firstDeleted != state.deleted { tag("x", state.firstDeleted, &writer) }
        if !state.namedBelow.isEmpty {
            writer.key("l")
            writer.beginArray()
            for name in state.namedBelow { writer.string(name) }
            writer.endArray()
        }
        var hasSpecial = false
        for field in state.fields where field.plainTag != state.created || !field.isPlain {
            if !hasSpecial {
                hasSpecial = true
                writer.key("f")
                writer.beginObject()
            }
            writer.key(field.name)
            try self.field(field, &writer)
        }
        if hasSpecial { writer.endObject() }
        writer.endObject()
        return TextBytes(bytes: writer.bytes)
    }

    private static func field(_ field: FieldState, _ writer: inout JSONWriter) throws(JSONFailure) {
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
                try writer.value(entry.difference.fieldValue)
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

    private static func tag(_ name: String, _ tag: WriteTag?, _ writer: inout JSONWriter) {
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

    static func state(fields: String, writes: String) throws -> RecordState {
        var values: [(name: String, value: FieldValue)] = []
        var reader = JSONReader(fields, maximumDepth: 128)
        try reader.beginObject()
        while let name = try reader.nextKey() { values.append((name, try reader.readValue())) }
        return try state(values, writes)
    }

    private static func state(_ values: [(name: String, value: FieldValue)], _ writes: String) throws -> RecordState {
        var created: WriteTag?
        var deleted: WriteTag?
        var firstDeleted: WriteTag?
        var namedBelow: [String] = []
        var special: [String: FieldState] = [:]
        var reader = JSONReader(writes, maximumDepth: 128)
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
                try reader.beginObject()
                while let field = try reader.nextKey() {
                    special[field] = try self.field(field, values, &reader)
                }
            default: throw Damaged(reason: "an unknown member \(name)")
            }
        }
        let states = values.map { name, value in
            special[name] ?? FieldState(name: name, plain: value, plainTag: created, sums: nil, elements: nil)
        }
        return RecordState(
            created: created, deleted: deleted, firstDeleted: firstDeleted ?? deleted, namedBelow: namedBelow,
            fields: states)
    }

    private static func field(
        _ name: String, _ values: [(name: String, value: FieldValue)], _ reader: inout JSONReader
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
        let value = plain ?? values.first { $0.name == name }?.value ?? .null
        return FieldState(
            name: name, plain: value, plainTag: plainTag, sums: sums.map { SumLog(entries: $0) },
            elements: elements.map { ElementLog(entries: $0) })
    }

    private static func sums(_ reader: inout JSONReader) throws -> [SumLog.Entry] {
        var entries: [SumLog.Entry] = []
        try reader.beginArray()
        while try reader.nextElement() {
            let tag = try tag(&reader)
            guard try reader.nextElement(), let number = Number(try reader.readValue()) else {
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
