import Foundation
import SyncCore

/// The reader and the writer of JSON: every way of reading says the same, what is read comes back the same after it was
/// written, and Foundation agrees on what is JSON.
enum FuzzJSON {
    @Sendable static func run(_ bytes: [UInt8]) {
        let read = Result { () throws(JSONFailure) in try FieldValue(json: bytes) }
        checkSkipping(bytes, read)
        checkPulling(bytes, read)
        switch read {
        case .success(let value):
            checkWriting(value)
            // Foundation refuses some depths and half characters that are none of ours; it must take what we take.
            must(theirs(bytes) != nil, "Foundation does not read this")
        case .failure(let failure):
            must(failure.offset >= 0 && failure.offset <= bytes.count, "the fault is outside: \(failure)")
            checkRefusal(bytes, failure)
        }
    }

    private static func theirs(_ bytes: [UInt8]) -> Any? {
        do {
            return try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
        } catch {
            return nil
        }
    }

    /// What we call bad syntax is bad for Foundation as well; our own limits are our own.
    private static func checkRefusal(_ bytes: [UInt8], _ failure: JSONFailure) {
        guard failure.kind == .truncated || failure.kind == .trailingBytes else { return }
        // Foundation guesses UTF-16 and UTF-32 by zeros and marks, and takes what stands behind a zero.
        guard !bytes.contains(0), bytes.first.map({ $0 < 0x80 }) ?? true else { return }
        must(theirs(bytes) == nil, "Foundation reads what is refused: \(failure)")
    }

    /// Skipping checks as strictly as reading.
    private static func checkSkipping(_ bytes: [UInt8], _ read: Result<FieldValue, JSONFailure>) {
        var reader = JSONReader(bytes)
        let skipped = Result { () throws(JSONFailure) in
            try reader.skipValue()
            try reader.finish()
        }
        switch (read, skipped) {
        case (.success, .success): break
        case (.failure(let a), .failure(let b)): must(a == b, "\(a) when read, \(b) when skipped")
        default: fatalError("read: \(read), skipped: \(skipped)")
        }
    }

    /// Member by member and element by element, with a bookmark on the way.
    private static func checkPulling(_ bytes: [UInt8], _ read: Result<FieldValue, JSONFailure>) {
        var reader = JSONReader(bytes)
        let pulled = Result { () throws(JSONFailure) -> FieldValue in
            let value = try pull(&reader, 0)
            try reader.finish()
            return value
        }
        switch (read, pulled) {
        case (.success(let a), .success(let b)): must(a == b || a.hasData, "\(a) when read, \(b) when pulled")
        case (.failure, .failure): break
        default: fatalError("read: \(read), pulled: \(pulled)")
        }
    }

    private static func pull(_ reader: inout JSONReader, _ level: Int) throws(JSONFailure) -> FieldValue {
        switch try reader.peek() {
        case .object:
            var members: [String: FieldValue] = [:]
            try reader.beginObject()
            while let name = try reader.nextKey() { members[name] = try pull(&reader, level + 1) }
            return .object(members)
        case .array:
            var elements: [FieldValue] = []
            try reader.beginArray()
            while try reader.nextElement() {
                let bookmark = reader
                elements.append(try pull(&reader, level + 1))
                _ = bookmark.offset
            }
            return .array(elements)
        case .string: return .string(try reader.readString())
        case .bool: return .bool(try reader.readBool())
        case .null: return try reader.readNull() ? .null : .bool(false)
        case .number: return try reader.readValue()
        }
    }

    private static func checkWriting(_ value: FieldValue) {
        do {
            let json = try value.json()
            let again = try FieldValue(json: json)
            must(again == value, "\(value) came back as \(again)")
            must(try again.json() == json, "written twice, \(value) is not the same")
            must(theirs(json) != nil, "Foundation does not read what we write of \(value)")
        } catch { fatalError("\(value) cannot be written and read: \(error)") }
    }
}

extension FieldValue {
    /// Whether bytes stand in it, which are an object to who pulls.
    fileprivate var hasData: Bool {
        switch self {
        case .data: true
        case .array(let elements): elements.contains(where: \.hasData)
        case .object(let members): members.values.contains(where: \.hasData)
        default: false
        }
    }
}
