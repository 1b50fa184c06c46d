import SyncCore
import Testing

struct JSONReaderTests {
    @Test(
        "values are read exactly",
        arguments: [
            ("null", FieldValue.null), (" true ", .bool(true)), ("false", .bool(false)), ("0", .int(0)),
            ("-0", .int(0)), ("9223372036854775807", .int(.max)), ("-9223372036854775808", .int(.min)),
            ("1.0", .double(1)), ("1e2", .double(100)), ("-1.5E-3", .double(-0.0015)),
            ("0.1", .double(0.1)),
            ("1e-300", .double(1e-300)), ("1.7976931348623157e308", .double(.greatestFiniteMagnitude)),
            ("0.000000000000000000000000000001", .double(1e-30)),
            ("123456789012345678.5", .double(123456789012345678.5)),
            ("9007199254740993.0", .double(9_007_199_254_740_992)), ("1e-400", .double(0)),
            ("\"\"", .string("")),
            ("\"a\\u00e9\\ud83d\\ude00\\n\\/\"", .string("a\u{e9}\u{1f600}\n/")),
            ("\"\\u0000\"", .string("\0")),
            ("\"é, 日本, 😀 and more than eight bytes\"", .string("é, 日本, 😀 and more than eight bytes")),
            ("[]", .array([])), ("[1,[2 , 3],{}]", .array([1, [2, 3], .object([:])])),
            ("{\"a\":{\"b\":null}}", .object(["a": .object(["b": .null])])),
            ("{\"$data\":\"\"}", .data([])), ("{\"$data\":\"AP8=\"}", .data([0, 255])),
            ("{\"$data\":\"AP8B\"}", .data([0, 255, 1])), ("{\"$data\":1}", .object(["$data": 1])),
            ("{\"$data\":\"AP8=\",\"a\":1}", .object(["$data": "AP8=", "a": 1])),
        ])
    func reads(_ json: String, _ value: FieldValue) throws {
        #expect(try FieldValue(json: json) == value)
        var reader = JSONReader("[" + json + "]")
        try reader.beginArray()
        #expect(try reader.nextElement())
        try reader.skipValue()
        #expect(try !reader.nextElement())
        try reader.finish()
    }

    @Test(
        "NET-10 what is not exactly one JSON value is refused, and where",
        arguments: [
            ("", JSONFailure.Kind.truncated, 0), ("nul", .truncated, 3), ("nulx", .syntax, 3),
            ("01", .syntax, 1),
            ("-", .truncated, 1), ("1.", .truncated, 2), ("1.e3", .syntax, 2), (".5", .syntax, 0),
            ("+1", .syntax, 0),
            ("1e", .truncated, 2), ("NaN", .syntax, 0), ("[1,]", .syntax, 3), ("[1 2]", .syntax, 3),
            ("[1", .truncated, 2), ("{\"a\"}", .syntax, 4), ("{\"a\":1,}", .syntax, 7),
            ("{a:1}", .syntax, 1),
            ("{\"a\":1,\"a\":2}", .duplicateMember, 7), ("{\"a\":1,\"\\u0061\":2}", .duplicateMember, 7),
            ("{\"\u{e9}\":1,\"e\u{301}\":2}", .duplicateMember, 8), ("\"a", .truncated, 2),
            ("\"a\nb\"", .syntax, 2),
            ("\"\\x\"", .syntax, 1), ("\"\\u12g4\"", .syntax, 5), ("\"\\ud800\"", .text, 1),
            ("\"\\ud800\\u0041\"", .text, 1), ("\"\\udc00\"", .text, 1), ("1 2", .trailingBytes, 2),
            ("null\0", .trailingBytes, 4), ("\u{feff}1", .syntax, 0),
            ("9223372036854775808", .numberDoesNotFit, 0),
            ("-9223372036854775809", .numberDoesNotFit, 0),
            ("18446744073709551616", .numberDoesNotFit, 0),
            ("1e400", .numberDoesNotFit, 0), (String(repeating: "1", count: 5000), .numberDoesNotFit, 0),
        ])
    func refuses(_ json: String, _ kind: JSONFailure.Kind, _ offset: Int) {
        let read = #expect(throws: JSONFailure.self) { try FieldValue(json: json) }
        #expect(read?.kind == kind)
        #expect(read?.offset == offset)
        // Skipping is as strict as reading.
        let skipped = #expect(throws: JSONFailure.self) {
            var reader = JSONReader(json)
            try reader.skipValue()
            try reader.finish()
        }
        #expect(skipped?.kind == kind)
        #expect(skipped?.offset == offset)
    }

    @Test(
        "NET-10 bytes that are not UTF-8 are refused at the first bad one",
        arguments: [
            [0x80], [0xc0, 0x80], [0xc3], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80],
            [0xf0, 0x80, 0x80, 0x80],
            [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82], [0xff], [0xe2, 0x28, 0xa1],
        ] as [[UInt8]])
    func badUTF8(_ bad: [UInt8]) {
        for tail in ["", "a", "\\n", "another eight bytes"] {
            let json = Array("\"ok\u{e9}".utf8) + bad + Array(tail.utf8) + Array("\"".utf8)
            #expect(throws: JSONFailure(.text, offset: 5, expected: "UTF-8")) {
                try FieldValue(json: json)
            }
            #expect(throws: JSONFailure(.text, offset: 5, expected: "UTF-8")) {
                var reader = JSONReader(json)
                try reader.skipValue()
            }
            let name = Array("{".utf8) + json + Array(":1}".utf8)
            #expect(throws: JSONFailure(.text, offset: 6, expected: "UTF-8")) {
                var reader = JSONReader(name)
                try reader.skipValue()
            }
        }
    }

    @Test(
        "NET-10 depth 64 is read, depth 65 and 100,000 are refused without a deep stack",
        arguments: ["[", "{\"a\":"])
    func depth(_ open: String) throws {
        let close = open == "[" ? "]" : "}"
        func nested(_ depth: Int) -> String {
            String(repeating: open, count: depth - 1) + "[]" + String(repeating: close, count: depth - 1)
        }
        #expect(throws: Never.self) { try FieldValue(json: nested(64)) }
        for depth in [65, 100_000] {
            let failure = #expect(throws: JSONFailure.self) { try FieldValue(json: nested(depth)) }
            #expect(failure?.kind == .tooDeep)
            let open = #expect(throws: JSONFailure.self) {
                try FieldValue(json: String(repeating: open, count: depth))
            }
            #expect(open?.kind == .tooDeep)
        }
    }

    @Test("depth is counted from the body's root, also for a part of it and through the pull reader")
    func partialDepth() throws {
        let bytes = JSONBytes("[[[[1]]]]".utf8)
        var part = JSONReader(bytes, range: 1..<8, depth: 1, maximumDepth: 4)
        #expect(try part.readValue() == [[[1]]])
        var deeper = JSONReader(bytes, range: 1..<8, depth: 2, maximumDepth: 4)
        #expect(throws: JSONFailure.self) { try deeper.readValue() }
        var pulled = JSONReader(bytes, maximumDepth: 2)
        try pulled.beginArray()
        _ = try pulled.nextElement()
        try pulled.beginArray()
        _ = try pulled.nextElement()
        #expect(pulled.depth == 2)
        #expect(throws: JSONFailure.self) { try pulled.beginArray() }
        #expect(throws: JSONFailure.self) { try pulled.skipValue() }
    }

    @Test("a number that does not fit can be noted instead, and the reading goes on")
    func notedNumbers() throws {
        var reader = JSONReader("[18446744073709551616, 1, {\"$data\": \"?\"}, 2]")
        reader.refusesUnfitNumbers = false
        try reader.beginArray()
        _ = try reader.nextElement()
        #expect(try reader.readValue() == .double(18_446_744_073_709_551_616))
        #expect(reader.takeUnfit()?.kind == .numberDoesNotFit)
        #expect(reader.takeUnfit() == nil)
        _ = try reader.nextElement()
        #expect(try reader.readValue() == 1)
        #expect(reader.takeUnfit() == nil)
        _ = try reader.nextElement()
        #expect(try reader.readValue() == ["$data": "?"])
        #expect(
            reader.takeUnfit() == JSONFailure(.notBase64, offset: 26, expected: "base64 under $data"))
        _ = try reader.nextElement()
        #expect(try reader.skipValue() == 42..<43)
        #expect(try !reader.nextElement())
        try reader.finish()
    }

    @Test("a value of another type can be skipped after the refusal")
    func wrongType() throws {
        var reader = JSONReader(#"{"a":[1.5,"x",9223372036854775808,7.0,true,null],"b":"c"}"#)
        try reader.beginObject()
        #expect(try reader.nextKey() == "a")
        try reader.beginArray()
        for expected in [
            JSONFailure.Kind.wrongType, .wrongType, .numberDoesNotFit, nil, .wrongType, .wrongType,
        ] {
            #expect(try reader.nextElement())
            var bookmark = reader
            guard let expected else {
                #expect(try reader.readInt() == 7)
                continue
            }
            let failure = #expect(throws: JSONFailure.self) { try bookmark.readInt() }
            #expect(failure?.kind == expected)
            bookmark.refusesUnfitNumbers = false
            try bookmark.skipValue()
            reader = bookmark
        }
        #expect(try !reader.nextElement())
        #expect(try reader.nextKey() == "b")
        #expect(throws: JSONFailure.self) { try reader.readBool() }
        #expect(throws: JSONFailure.self) { try reader.beginArray() }
        #expect(try reader.readString() == "c")
        #expect(try reader.nextKey() == nil)
        try reader.finish()
    }

    @Test("a skipped value's range reads the same later, and a copy of a reader is a bookmark")
    func ranges() throws {
        let bytes = JSONBytes(#" [ {"a":1} , "b" ] "#.utf8)
        var reader = JSONReader(bytes)
        try reader.beginArray()
        _ = try reader.nextElement()
        var bookmark = reader
        let range = try reader.skipValue()
        #expect(bytes[range] == Array(#"{"a":1}"#.utf8))
        #expect(try bookmark.readValue() == ["a": 1])
        var part = JSONReader(bytes, range: range, depth: 1)
        #expect(try part.readValue() == ["a": 1])
        try part.finish()
    }

    @Test("SEC-17 a member told twice is found among many, and many cost little")
    func wideObjects() throws {
        let names = (0..<20_000).map { "\"name\($0)\":0" }.joined(separator: ",")
        #expect(throws: Never.self) {
            var reader = JSONReader("{\(names)}")
            try reader.skipValue()
        }
        for first in ["name0", "name19999", "n\\u0061me7"] {
            for read in [true, false] {
                let failure = #expect(throws: JSONFailure.self) {
                    var reader = JSONReader("{\(names),\"\(first)\":1}")
                    if read { _ = try reader.readValue() } else { try reader.skipValue() }
                }
                #expect(failure?.kind == .duplicateMember)
            }
        }
    }

    @Test("lent bytes are given back once, by the last reader")
    func lentBytes() throws {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 2, alignment: 1)
        memory.copyBytes(from: Array("42".utf8))
        final class Count: @unchecked Sendable {
            // Only touched by this test's own thread.
            var value = 0
        }
        let count = Count()
        do {
            let bytes = JSONBytes(lending: UnsafeRawBufferPointer(memory)) {
                count.value += 1
                UnsafeMutableRawBufferPointer(mutating: $0).deallocate()
            }
            var reader = JSONReader(bytes)
            #expect(try reader.readValue() == 42)
        }
        #expect(count.value == 1)
    }
}
