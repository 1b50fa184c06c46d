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
}
