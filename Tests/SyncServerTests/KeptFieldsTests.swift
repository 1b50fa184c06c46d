import SyncCore
import SyncTesting
import Testing

@testable import SyncServer

@Suite("Fields that stay the text that they were kept as")
struct KeptFieldsTests {
    private static let names = ["a", "due", "idList", "n", "name", "pos", "tags", "Ünder", "Zz", "q\"uote"]
    private static let texts: [FieldValue] = [
        "", "plain", "line\nbreak", "späß", "\u{0}\u{1f}\"\\", .null, 7, 1.5, true, .data([1, 2]), ["x", 1],
        ["k": ["d": 1]],
    ]

    private func kept(_ state: RecordState) throws -> RecordState {
        var device = ""
        return try RecordCodec.state(
            fields: JSONBytes(RecordCodec.fields(of: state).bytes),
            writes: JSONBytes(RecordCodec.writes(of: state).bytes), device: &device)
    }

    private func bytes(_ state: RecordState) throws -> [String] {
        [
            String(decoding: try RecordCodec.fields(of: state).bytes, as: UTF8.self),
            String(decoding: try RecordCodec.writes(of: state).bytes, as: UTF8.self),
        ]
    }

    private func change(_ sequence: Int64, _ names: [String], _ chance: inout SeededGenerator) -> IncomingChange {
        let operation: Operation =
            sequence == 1
            ? .create : [.update, .update, .update, .update, .create, .delete].randomElement(using: &chance)!
        let stamp = Stamp(milliseconds: sequence < 3 ? 90 : UInt64.random(in: 100...120, using: &chance), counter: 0)
        let some = names.filter { _ in sequence == 1 || Int.random(in: 0..<4, using: &chance) == 0 }
        let fields = some.map { name -> IncomingChange.Field in
            switch name {
            case "n":
                return .init(
                    name: name, old: 1, new: .int(.random(in: 2...9, using: &chance)),
                    rule: operation == .update ? .sum : .lastWriter, stamp: stamp)
            case "tags":
                return .init(
                    name: name, old: ["x"], new: Bool.random(using: &chance) ? ["y"] : ["x", "z"],
                    rule: operation == .update ? .union : .lastWriter, stamp: stamp)
            default:
                let value = Self.texts.randomElement(using: &chance)!
                return .init(name: name, old: nil, new: value, rule: .lastWriter, stamp: stamp)
            }
        }
        return IncomingChange(
            id: "k\(sequence)", device: ["a", "b"].randomElement(using: &chance)!, sequence: sequence,
            record: RecordKey("card", "c1"), operation: operation, stamp: stamp,
            fields: operation == .delete ? [] : fields.sorted { $0.name < $1.name })
    }

    @Test(
        "A record that is kept and read again before each change comes to the same as one that never was",
        arguments: 1...60)
    func sameAsInMemory(_ seed: UInt64) throws {
        var chance = SeededGenerator(seed: seed)
        // Names that are not their own bytes are read as a whole; so both ways are gone.
        let names = seed % 3 == 0 ? Self.names : Self.names.filter { $0.utf8.allSatisfy { $0 >= 0x30 && $0 < 0x7b } }
        var inMemory = RecordState()
        var atRest = RecordState()
        for sequence in Int64(1)...25 {
            let change = change(sequence, names, &chance)
            let (here, there) = (inMemory.apply(change), atRest.apply(change))
            #expect(here.kind == there.kind && here.hasEffect == there.hasEffect && here.isAsSent == there.isAsSent)
            #expect(here.overwrote.map(\.name) == there.overwrote.map(\.name))
            #expect(try bytes(inMemory) == bytes(atRest))
            atRest = try kept(atRest)
            #expect(atRest.highestStamp == inMemory.highestStamp && atRest.isDead == inMemory.isDead)
            for name in names { #expect(atRest.value(of: name) == inMemory.value(of: name)) }
        }
        #expect(atRest == inMemory)
    }

    @Test("A change of one field leaves the others byte by byte as they were kept")
    func untouchedTextStays() throws {
        var device = ""
        var state = try RecordCodec.state(
            fields: JSONBytes(#"{"a":"\u0041\/","b":1.50,"c":{ "z":1, "y":2 },"d":0}"#.utf8),
            writes: JSONBytes(#"{"c":[6553600,"dev",1]}"#.utf8), device: &device)
        #expect(device == "dev")
        let stamp = Stamp(milliseconds: 200, counter: 0)
        let change = IncomingChange(
            id: "k2", device: "dev", sequence: 2, record: RecordKey("card", "c1"), operation: .update, stamp: stamp,
            fields: [.init(name: "b", old: 1.5, new: 2, rule: .lastWriter, stamp: stamp)])
        #expect(state.apply(change).overwrote.isEmpty)
        #expect(try bytes(state)[0] == #"{"a":"\u0041\/","b":2,"c":{ "z":1, "y":2 },"d":0}"#)
        #expect(try bytes(state)[1] == #"{"c":[6553600,"dev",1],"f":{"b":{"t":[13107200,"dev",2]}}}"#)
    }

    @Test(
        "What is no record is told when it is read, not when a field of it is",
        arguments: [#"{"a":1"#, #"{"a":tru}"#, #"{"a":"\ud800"}"#, #"{"a":1}x"#, #"{"a":1,"a":2}"#, "[]"])
    func damaged(_ fields: String) {
        var device = ""
        #expect(throws: (any Error).self) {
            try RecordCodec.state(
                fields: JSONBytes(fields.utf8), writes: JSONBytes(#"{"c":[1,"dev",1]}"#.utf8), device: &device)
        }
    }
}
