import Foundation
import SyncCore
import Testing

/// What the reader remembers between objects never changes what is read.
struct NameTreeTests {
    private typealias Seeded = JSONDifferentialTests.Seeded

    /// Every way of reading, and whether they agree.
    private func read(_ json: String) throws -> FieldValue {
        let value = try FieldValue(json: json)
        var reader = JSONReader(json)
        try reader.skipValue()
        try reader.finish()
        var puller = JSONReader(json)
        #expect(try pull(&puller) == value)
        return value
    }

    private func pull(_ reader: inout JSONReader) throws(JSONFailure) -> FieldValue {
        switch try reader.peek() {
        case .object:
            var members: [String: FieldValue] = [:]
            try reader.beginObject()
            while let name = try reader.nextKey() { members[name] = try pull(&reader) }
            return .object(members)
        case .array:
            var elements: [FieldValue] = []
            try reader.beginArray()
            while try reader.nextElement() { elements.append(try pull(&reader)) }
            return .array(elements)
        default: return try reader.readValue()
        }
    }

    private func failure(_ json: String) -> [JSONFailure?] {
        var (reader, skipper, puller) = (JSONReader(json), JSONReader(json), JSONReader(json))
        return [
            Result { () throws(JSONFailure) in _ = try reader.readValue() },
            Result { () throws(JSONFailure) in _ = try skipper.skipValue() },
            Result { () throws(JSONFailure) in _ = try pull(&puller) },
        ].map { if case .failure(let failure) = $0 { failure } else { nil } }
    }

    @Test("objects of many shapes, more than the tree takes, read as Foundation reads them", arguments: 0..<4)
    func shapes(_ seed: UInt64) throws {
        var random = Seeded(state: seed)
        let names = (0..<24).map { "name\($0)" } + ["é", "e\u{301}", "a\"b", "a\\b", "日本", "", "n", "na", "nam"]
        var objects: [[String: Int]] = []
        var json = "["
        for index in 0..<400 {
            // Unicode's equal names are one; only one of them may stand in an object.
            var chosen = names.shuffled(using: &random).prefix(Int.random(in: 0...12, using: &random))
            if chosen.contains("é") { chosen.removeAll { $0.unicodeScalars.count > 1 && $0 == "é" } }
            // Half of them in the usual order, so that paths are shared.
            let order = Bool.random(using: &random) ? Array(chosen).sorted() : Array(chosen)
            let members = order.enumerated().map { place, name in (name, index * 100 + place) }
            objects.append(Dictionary(members, uniquingKeysWith: { $1 }))
            let written = try members.map { "\(try FieldValue.string($0.0).jsonText()):\($0.1)" }
            json += (index == 0 ? "" : ",") + "{\(written.joined(separator: ","))}"
        }
        json += "]"
        let expected = FieldValue.array(
            objects.map { .object($0.mapValues { FieldValue.int(Int64($0)) }) })
        #expect(try read(json) == expected)
        let theirs = try JSONSerialization.jsonObject(with: Data(json.utf8))
        #expect(JSONDifferentialTests.matches(expected, theirs))
    }

    @Test("SEC-17 more names than the tree takes in one object, and more orders than it takes in all")
    func wide() throws {
        let wide = "{" + (0..<500).map { "\"w\($0)\":\($0)" }.joined(separator: ",") + "}"
        let many = (0..<600).map { "{\"only\($0)\":{\"x\":\($0)}}" }.joined(separator: ",")
        let value = try read("[\(wide),\(many),\(wide)]")
        guard case .array(let elements) = value, case .object(let first) = elements[0] else {
            Issue.record("another value")
            return
        }
        #expect(first.count == 500 && first["w499"] == 499)
        #expect(elements[0] == elements[601])
        #expect(elements[600] == ["only599": ["x": 599]])
    }

    @Test("NET-10 a name told twice is found within the tree, behind it, and however it is written")
    func twice() {
        let many = (0..<70).map { "\"w\($0)\":\($0)," }.joined()
        let shape = #"{"a":1,"b":2,"c":3}"#
        for json in [
            #"{"a":1,"a":2}"#, #"{"a":1,"b":2,"\u0061":3}"#, #"{"é":1,"e\u0301":2}"#, "{\(many)\"w3\":1}",
            "{\(many)\"w69\":1}", "{\(many)\"z\":1,\"z\":2}", #"[\#(shape),\#(shape),{"a":1,"b":2,"a":3}]"#,
            #"{"o":{"a":1,"b":1},"p":{"a":1,"b":1},"o":1}"#,
        ] {
            let failures = failure(json)
            #expect(failures.map { $0?.kind } == [.duplicateMember, .duplicateMember, .duplicateMember], "\(json)")
            #expect(Set(failures).count == 1, "\(json)")
        }
        // The same names within each other are no repetition.
        #expect(failure("{\(many)\"z\":{\(many)\"z\":{\"z\":1}}}") == [nil, nil, nil])
    }

    @Test("texts that begin and end alike are not taken for each other, and the same one stays the same")
    func recent() throws {
        let texts =
            (0..<2_000).map { "same-beginning-\($0 % 97 * 7_919)-same-ending" } + ["same-beginning--same-ending"]
        let json = try FieldValue.array(texts.map { .string($0) }).jsonText()
        #expect(try FieldValue(json: json) == .array(texts.map { .string($0) }))
    }

    @Test("a number that does not fit leaves the reader before the value, however deep it is")
    func unfit() throws {
        for json in [#"[{"a":[1,18446744073709551616]},7]"#, #"[{"a":{"b":1e999}},7]"#] {
            var reader = JSONReader(json)
            try reader.beginArray()
            #expect(try reader.nextElement())
            let refused = failure { () throws(JSONFailure) in _ = try reader.readValue() }
            #expect(refused == .numberDoesNotFit)
            reader.refusesUnfitNumbers = false
            try reader.skipValue()
            #expect(try reader.nextElement())
            #expect(try reader.readInt() == 7)
        }
    }

    private func failure(_ body: () throws(JSONFailure) -> Void) -> JSONFailure.Kind? {
        do { try body() } catch { return error.kind }
        return nil
    }

    @Test("a value 64 deep is read, one 65 deep is not, and nothing of it stands on the stack")
    func deep() throws {
        let deep = String(repeating: #"{"a":["#, count: 32) + String(repeating: "]}", count: 32)
        _ = try read(deep)
        #expect(failure("[\(deep)]").allSatisfy { $0?.kind == .tooDeep })
        // As deep as the caller allows: far deeper than a thread's stack would take.
        let abyss = String(repeating: "[", count: 500_000) + String(repeating: "]", count: 500_000)
        var reader = JSONReader(abyss, maximumDepth: 500_000)
        try reader.skipValue()
        try reader.finish()
    }

    @Test("what the writer has room for behind its bytes never shows")
    func room() throws {
        var writer = JSONWriter(capacity: 1_000)
        writer.beginArray()
        for number in [0.5, -0.5, 1.5, -2, 1e11, 123_456_789_012.5, 1e300, -0.0, 0] { try writer.double(number) }
        writer.string("a\"" + String(repeating: "é\n", count: 40))
        writer.endArray()
        let text = String(decoding: writer.bytes, as: UTF8.self)
        let expected =
            "[0.5,-0.5,1.5,-2.0,100000000000.0,123456789012.5,1e+300,-0.0,0.0,\"a\\\""
            + String(repeating: "é\\n", count: 40) + "\"]"
        #expect(text == expected)
        #expect(writer.count == text.utf8.count)
        let taken = writer.takeBytes()
        #expect(taken == Array(text.utf8))
        #expect(writer.count == 0)
        writer.int(7)
        #expect(writer.bytes == Array("7".utf8))
    }
}
