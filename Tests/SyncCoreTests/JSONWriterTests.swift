import SyncCore
import Testing

struct JSONWriterTests {
    @Test(
        "values are written compact, sorted by the bytes of their names",
        arguments: [
            (FieldValue.null, "null"), (.bool(true), "true"), (.int(.min), "-9223372036854775808"),
            (.int(0), "0"),
            (.double(1), "1.0"), (.double(-0.0), "-0.0"), (.double(0.1), "0.1"),
            (.double(1e300), "1e+300"),
            (.string("a\"b\\c\u{8}\u{c}\n\r\t\u{1}\u{1f}/é😀"), #""a\"b\\c\b\f\n\r\t\u0001\u001f/é😀""#),
            (.data([]), #"{"$data":""}"#), (.data([0]), #"{"$data":"AA=="}"#),
            (.data([0, 255]), #"{"$data":"AP8="}"#),
            (.data([0, 255, 1, 2]), #"{"$data":"AP8BAg=="}"#),
            (.array([1, .object(["a": .null]), .array([])]), #"[1,{"a":null},[]]"#),
            (.object(["b": 1, "a": .object([:]), "é": 2, "B": 3, "": 4]), #"{"":4,"B":3,"a":{},"b":1,"é":2}"#),
        ])
    func writes(_ value: FieldValue, _ json: String) throws {
        #expect(try value.jsonText() == json)
        #expect(try FieldValue(json: json) == value)
    }

    @Test(
        "NaN and infinities are refused, wherever they stand",
        arguments: [Double.nan, .infinity, -.infinity])
    func notNumbers(_ double: Double) {
        for value in [FieldValue.double(double), [1, .double(double)], ["a": ["b": .double(double)]]] {
            let failure = #expect(throws: JSONFailure.self) { try value.json() }
            #expect(failure?.kind == .notANumber)
        }
    }

    @Test("the writer sets commas and colons")
    func nesting() throws {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("a")
        writer.beginArray()
        writer.endArray()
        writer.key("b")
        writer.int(-7)
        writer.key("c")
        writer.beginArray()
        writer.string("x")
        try writer.double(2.5)
        writer.raw(Array("{}".utf8))
        writer.null()
        writer.bool(false)
        writer.endArray()
        writer.endObject()
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"a":[],"b":-7,"c":["x",2.5,{},null,false]}"#)
    }

    @Test("integers of every length, and the writer used again after clear()")
    func integers() {
        var writer = JSONWriter()
        var power: Int64 = 1
        for _ in 0..<19 {
            for number in [power - 1, power, power + 1, power &* 9, -power] {
                writer.clear()
                writer.int(number)
                #expect(writer.withBytes { String(decoding: $0, as: UTF8.self) } == String(number))
            }
            power = power.multipliedReportingOverflow(by: 10).overflow ? power : power * 10
        }
        for number in [Int64.max, .min, .max - 1, .min + 1] {
            writer.clear()
            writer.int(number)
            #expect(writer.withBytes { String(decoding: $0, as: UTF8.self) } == String(number))
        }
    }
}
