import Foundation
import GRDB
import SyncCore

/// A value that a column, or the contract, cannot hold as its field is declared.
///
/// Trying again gives the same; the record or change that carries it is set aside.
struct ValueMismatch: Error, Hashable, CustomStringConvertible {
    var entity: String
    var field: String
    var kind: FieldKind
    var found: String

    var description: String { "“\(field)” of \(entity) is declared as \(kind.rawValue), but the value is \(found)" }
}

/// Column value ⇄ `FieldValue`, by the declared kind of the field.
///
/// Reading is lenient: what the app put into its column is what the user sees, so a value of another type goes out
/// as it is, and the server says what it thinks of it. Writing is strict: a server's value of another type never
/// reaches the app's column.
enum RowCodec {
    /// What a column's value is to the engine.
    /// - Throws: ``ValueMismatch`` for a `json` column that holds no JSON, and for NaN and infinities, which have no form
    ///   on the wire.
    static func value(_ column: DatabaseValue, of field: FieldSchema, in entity: String) throws -> FieldValue {
        switch column.storage {
        case .null: return .null
        case .int64(let number):
            switch field.kind {
            case .boolean: return .bool(number != 0)
            case .real: return Int64(exactly: Double(number)) == number ? .double(Double(number)) : .int(number)
            case .json, .text, .integer, .date, .data: return .int(number)
            }
        case .double(let number):
            guard number.isFinite else { throw mismatch(field, entity, "\(number)") }
            if field.kind == .integer, let whole = Int64(exactly: number) { return .int(whole) }
            return .double(number)
        case .string(let text):
            switch field.kind {
            case .json:
                do { return try FieldValue(json: text) } catch { throw mismatch(field, entity, "no JSON (\(error))") }
            case .date: return .string(DateText.wire(text))
            case .text, .integer, .real, .boolean, .data: return .string(text)
            }
        case .blob(let bytes): return .data([UInt8](bytes))
        }
    }

    /// What goes into the column for a value of the server's.
    /// - Throws: ``ValueMismatch`` where the value is of another type than the field is declared with.
    static func column(_ value: FieldValue, of field: FieldSchema, in entity: String) throws -> DatabaseValue {
        switch try stored(value, of: field, in: entity) {
        case .string(let text): text.databaseValue
        case .int(let number): number.databaseValue
        case .double(let number): number.databaseValue
        case .data(let bytes): Data(bytes).databaseValue
        case .null, .bool, .array, .object: .null
        }
    }

    /// The same as one of the five kinds of values that SQLite has: null, an integer, a double, a text or bytes.
    /// - Throws: as ``column(_:of:in:)``.
    static func stored(_ value: FieldValue, of field: FieldSchema, in entity: String) throws -> FieldValue {
        switch (field.kind, value) {
        case (.text, .string(let text)), (.date, .string(let text)):
            guard !text.hasNUL else {
                throw mismatch(field, entity, "a text with U+0000, at which a text ends for most who read SQLite")
            }
            return value
        case (_, .null), (.integer, .int), (.real, .int), (.data, .data): return value
        case (.integer, .double(let number)):
            // Above 2^53 a double does not name one integer any more.
            guard let whole = Int64(exactly: number), whole.magnitude <= 1 << 53 else {
                throw mismatch(field, entity, "\(number)")
            }
            return .int(whole)
        case (.real, .double(let number)):
            guard number.isFinite else { throw mismatch(field, entity, "\(number)") }
            return value
        case (.boolean, .bool(let flag)): return .int(flag ? 1 : 0)
        case (.json, _):
            do { return .string(try value.jsonText()) } catch { throw mismatch(field, entity, "\(error)") }
        case (.text, _), (.date, _), (.integer, _), (.real, _), (.boolean, _), (.data, _):
            throw mismatch(field, entity, describe(value))
        }
    }

    /// What a value in a change's JSON is: as the trigger wrote it (bytes as hex; an earlier version's booleans as 0 and 1), or
    /// in the wire's form.
    static func value(raw: FieldValue, of field: FieldSchema) -> FieldValue {
        switch (field.kind, raw) {
        case (.boolean, .int(let number)): .bool(number != 0)
        case (.data, .string(let hex)): bytes(hex: hex).map(FieldValue.data) ?? raw
        case (.real, .int(let number)):
            Int64(exactly: Double(number)) == number ? .double(Double(number)) : raw
        case (.real, .string(let text)): scaled(text).map(FieldValue.double) ?? raw
        case (.integer, .double(let number)): Int64(exactly: number).map(FieldValue.int) ?? raw
        case (.date, .string(let text)): .string(DateText.wire(text))
        default: raw
        }
    }

    /// A large double as the triggers write it, which have no exact decimal form for it: `p800:` and its 2^800th part.
    private static func scaled(_ text: String) -> Double? {
        guard text.hasPrefix("p800:"), let part = Double(text.dropFirst(5)) else { return nil }
        return part * 0x1p800
    }

    private static func mismatch(_ field: FieldSchema, _ entity: String, _ found: String) -> ValueMismatch {
        ValueMismatch(entity: entity, field: field.name, kind: field.kind, found: found)
    }

    private static func describe(_ value: FieldValue) -> String {
        switch value {
        case .null: "null"
        case .bool: "a boolean"
        case .int, .double: "a number"
        case .string: "a string"
        case .data: "bytes"
        case .array: "an array"
        case .object: "an object"
        }
    }

    private static func bytes(hex: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(hex.utf8.count / 2)
        var high: UInt8?
        for letter in hex.utf8 {
            let digit: UInt8
            switch letter {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = letter - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = letter - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = letter - UInt8(ascii: "A") + 10
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return high == nil ? bytes : nil
    }
}

/// Dates as GRDB writes them by itself, and as the wire has them.
enum DateText {
    /// `2026-11-21 08:00:00.123`, which GRDB makes of a `Date` (UTC), as RFC 3339; every other text as it is.
    static func wire(_ text: String) -> String {
        var bytes = Array(text.utf8)
        guard bytes.count == 23, bytes[10] == UInt8(ascii: " ") else { return text }
        for (index, byte) in bytes.enumerated() {
            switch index {
            case 4, 7: guard byte == UInt8(ascii: "-") else { return text }
            case 10: continue
            case 13, 16: guard byte == UInt8(ascii: ":") else { return text }
            case 19: guard byte == UInt8(ascii: ".") else { return text }
            default: guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return text }
            }
        }
        bytes[10] = UInt8(ascii: "T")
        bytes.append(UInt8(ascii: "Z"))
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension String {
    /// Whether it has U+0000 in it: GRDB, and C, end there (Decision 432).
    var hasNUL: Bool {
        utf8.withContiguousStorageIfAvailable { bytes in
            guard let start = bytes.baseAddress else { return false }
            return memchr(start, 0, bytes.count) != nil
        } ?? utf8.contains(0)
    }
}
