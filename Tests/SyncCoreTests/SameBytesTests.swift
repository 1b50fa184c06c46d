import SyncCore
import Testing

@Suite("Texts as values")
struct SameBytesTests {
    @Test("two texts are the same if their bytes are, of whatever length", arguments: 0...34)
    func lengths(length: Int) {
        let text = String(repeating: "a", count: length)
        #expect(FieldValue.string(text) == .string(String(repeating: "a", count: length)))
        #expect(FieldValue.string(text) != .string(text + "a"))
        for place in 0..<length {
            var other = Array(text.utf8)
            other[place] = UInt8(ascii: "b")
            #expect(FieldValue.string(text) != .string(String(decoding: other, as: UTF8.self)), "at \(place)")
        }
    }

    @Test("an accent composed otherwise is another value")
    func accents() {
        #expect("\u{e9}" == "e\u{301}")
        #expect(FieldValue.string("\u{e9}") != .string("e\u{301}"))
        #expect(!FieldValue.string("caf\u{e9}").isSame(as: .string("cafe\u{301}")))
    }

    @Test("a text is hashed by its bytes, too: thousands of marks in a row take no longer than other texts")
    func hashes() {
        #expect(FieldValue.string("\u{e9}").hashValue != FieldValue.string("e\u{301}").hashValue)
        let values: [FieldValue] = [
            .null, .bool(true), .int(1), .double(1.5), .string("a"), .data([1]), .array(["a", 1]),
            .object(["a": ["b"]]),
        ]
        #expect(Set(values + values).count == values.count)
        #expect(FieldValue.double(0.0).hashValue == FieldValue.double(-0.0).hashValue)
    }

    @Test("a text is stream-safe up to 30 marks in a row, and made so with U+034F between more")
    func streamSafe() {
        let marks = { String(String.UnicodeScalarView(repeatElement("\u{301}", count: $0))) }
        #expect("".isStreamSafe && "abc".isStreamSafe && ("a" + marks(30) + "b" + marks(30)).isStreamSafe)
        #expect(!("a" + marks(31)).isStreamSafe && !("plain text a" + marks(31) + "b").isStreamSafe)
        #expect(!String(String.UnicodeScalarView(repeatElement("\u{f73}", count: 31))).isStreamSafe)
        #expect(
            Array("a\(marks(61))b".streamSafe.utf8) == Array("a\(marks(30))\u{34f}\(marks(30))\u{34f}\(marks(1))b".utf8)
        )
        #expect("abc".streamSafe == "abc")
    }
}
