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

    @Test("an element of a set is equal as JSON is, also within another")
    func elements() {
        let same: [(FieldValue, FieldValue)] = [(1, 1.0), ([1, ["a": 2.0]], [1.0, ["a": 2]]), (0, -0.0)]
        for (one, other) in same { #expect(SetElement(one) == SetElement(other) && one.isSame(as: other)) }
        for (one, other) in [(1, 1.5), (1, true), ("1", 1), ("\u{e9}", "e\u{301}")] as [(FieldValue, FieldValue)] {
            #expect(SetElement(one) != SetElement(other) && !one.isSame(as: other))
        }
    }

    @Test("a device puts its union over a set of many elements in a time that grows with their number alone")
    func largeUnion() {
        func time(_ count: Int64) -> Duration {
            let all = (0..<count).map(FieldValue.int)
            let delta = FieldDelta(old: .array(all), new: .array(all.dropFirst() + ["x"]), rule: .union)
            return (0..<3).map { _ in
                ContinuousClock().measure {
                    #expect(
                        LastWriterDeltas().rebase(delta, onto: .array(all + ["y"]))
                            == .array(all.dropFirst() + ["y", "x"]))
                }
            }.min() ?? .zero
        }
        let (few, many) = (time(300), time(6_000))
        #expect(many < few * 100, "\(few) for few, \(many) for twenty times as many")
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
