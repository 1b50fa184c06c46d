import Foundation
import SyncCore

/// JSON in and out: read by Foundation, written in one canonical form.
///
/// Canonical: no spaces, keys sorted by their UTF-8 bytes, only the escapes that JSON demands, whole doubles below 2^53
/// without a fraction. The same value is the same bytes on every device.
enum JSONText {
    /// The value of a JSON text; `nil` if it is none.
    static func value(_ text: String) -> FieldValue? { value(Data(text.utf8)) }

    /// The value of a JSON document; `nil` if it is none.
    static func value(_ bytes: Data) -> FieldValue? {
        do {
            return try JSONDecoder().decode(Tree.self, from: bytes).value
        } catch {
            return nil
        }
    }

    /// The canonical text of a value.
    static func text(_ value: FieldValue) -> String {
        var text = ""
        write(value, to: &text)
        return text
    }

    private static func write(_ value: FieldValue, to text: inout String) {
        switch value {
        case .null: text += "null"
        case .bool(let flag): text += flag ? "true" : "false"
        case .int(let number): text += String(number)
        case .double(let number):
            if let whole = Int64(exactly: number), whole.magnitude < 1 << 53, !(whole == 0 && number.sign == .minus) {
                text += String(whole)
            } else {
                text += number.description
            }
        case .string(let string): write(string, to: &text)
        case .data(let bytes): write(.object(["$data": .string(Data(bytes).base64EncodedString())]), to: &text)
        case .array(let elements):
            text += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { text += "," }
                write(element, to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            let sorted = members.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            for (index, member) in sorted.enumerated() {
                if index > 0 { text += "," }
                write(member.key, to: &text)
                text += ":"
                write(member.value, to: &text)
            }
            text += "}"
        }
    }

    private static func write(_ string: String, to text: inout String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case "\u{0}"..<"\u{20}":
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }

    /// Any JSON value; integers of 64 bits stay exact.
    private struct Tree: Decodable {
        let value: FieldValue

        init(from decoder: any Decoder) throws {
            if let keyed = try? decoder.container(keyedBy: Name.self) {
                var members: [String: FieldValue] = [:]
                for name in keyed.allKeys { members[name.stringValue] = try keyed.decode(Tree.self, forKey: name).value }
                value = .object(members)
                return
            }
            if var list = try? decoder.unkeyedContainer() {
                var elements: [FieldValue] = []
                while !list.isAtEnd { elements.append(try list.decode(Tree.self).value) }
                value = .array(elements)
                return
            }
            let single = try decoder.singleValueContainer()
            if single.decodeNil() {
                value = .null
            } else if let string = try? single.decode(String.self) {
                value = .string(string)
            } else if let flag = try? single.decode(Bool.self) {
                value = .bool(flag)
            } else if let number = try? single.decode(Int64.self) {
                value = .int(number)
            } else {
                value = .double(try single.decode(Double.self))
            }
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
