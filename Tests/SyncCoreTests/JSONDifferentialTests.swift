import Foundation
import SyncCore
import Testing

/// Foundation reads and writes what we do: every value both ways, and thousands of broken texts.
struct JSONDifferentialTests {
    /// A generator that gives the same numbers on every run (SplitMix64, Steele et al., 2014).
    struct Seeded: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var z = state
            z = (z ^ z >> 30) &* 0xbf58_476d_1ce4_e5b9
            z = (z ^ z >> 27) &* 0x94d0_49bb_1331_11eb
            return z ^ z >> 31
        }
    }

    static let letters = Array("abc \"\\/\n\t\u{1}é日😀\u{301}\u{7f}\u{2028}")

    static func value(_ random: inout Seeded, depth: Int = 0) -> FieldValue {
        switch Int.random(in: 0..<(depth < 5 ? 8 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(.random(using: &random))
        case 2:
            return .int(Int64(bitPattern: random.next()) >> Int64.random(in: 0..<64, using: &random))
        case 3:
            let double = Double(bitPattern: random.next())
            return .double(double.isFinite ? double : 0.5)
        case 4: return .double(Double(Int.random(in: -10_000...10_000, using: &random)) / 100)
        case 5:
            let count = Int.random(in: 0..<24, using: &random)
            return .string(String((0..<count).map { _ in letters.randomElement(using: &random)! }))
        case 6:
            return .array(
                (0..<Int.random(in: 0..<5, using: &random)).map { _ in value(&random, depth: depth + 1) })
        default:
            var members: [String: FieldValue] = [:]
            for _ in 0..<Int.random(in: 0..<5, using: &random) {
                let name = String((0..<3).map { _ in letters.randomElement(using: &random)! })
                members[name] = value(&random, depth: depth + 1)
            }
            return .object(members)
        }
    }

    /// Whether Foundation's value is ours.
    static func matches(_ value: FieldValue, _ object: Any) -> Bool {
        switch (value, object) {
        case (.null, is NSNull): true
        case (.bool(let a), let b as NSNumber): a == b.boolValue
        case (.int(let a), let b as NSNumber): a == b.int64Value
        // Foundation makes some numbers decimals, which are not exact as doubles; `numbers` compares those exactly.
        case (.double(let a), let b as NSNumber): abs(a - b.doubleValue) <= abs(a) * 1e-14
        case (.string(let a), let b as String): Array(a.utf8) == Array(b.utf8)
        case (.array(let a), let b as [Any]): a.count == b.count && zip(a, b).allSatisfy(matches)
        case (.object(let a), let b as [String: Any]):
            a.count == b.count
                && a.allSatisfy { name, value in b[name].map { matches(value, $0) } ?? false }
        default: false
        }
    }

    static func outcome<T>(_ body: () throws(JSONFailure) -> T) -> Result<T, JSONFailure> {
        Result(catching: body)
    }

    @Test("what we write, Foundation reads as the same; what it writes, we do", arguments: 0..<4)
    func roundTrips(_ seed: UInt64) throws {
        var random = Seeded(state: seed)
        for _ in 0..<2_000 {
            let value = Self.value(&random)
            let json = try value.json()
            #expect(try FieldValue(json: json) == value)
            let object = try JSONSerialization.jsonObject(with: Data(json), options: .fragmentsAllowed)
            #expect(Self.matches(value, object))
            let theirs = try JSONSerialization.data(
                withJSONObject: object, options: [.fragmentsAllowed, .prettyPrinted])
            // Foundation writes a great double as an integer of many digits.
            var reader = JSONReader([UInt8](theirs))
            reader.refusesUnfitNumbers = false
            let read = try reader.readValue()
            try reader.finish()
            #expect(Self.matches(read, object))
        }
    }

    @Test("every double that Foundation decodes is the same double here", arguments: 0..<4)
    func numbers(_ seed: UInt64) throws {
        var random = Seeded(state: 2_000 + seed)
        var compared = 0
        for _ in 0..<2_000 {
            var text = "\(Int.random(in: -999_999...999_999, using: &random))"
            if Bool.random(using: &random) { text += "\(random.next() >> UInt64.random(in: 0..<64, using: &random))" }
            text += ".\(random.next() >> UInt64.random(in: 0..<64, using: &random))"
            if Bool.random(using: &random) { text += "e\(Int.random(in: -330...280, using: &random))" }
            // Foundation refuses what is too small for a normal double.
            guard let theirs = try? JSONDecoder().decode([Double].self, from: Data("[\(text)]".utf8)) else { continue }
            compared += 1
            #expect(try FieldValue(json: text) == .double(theirs[0]), "\(text)")
        }
        #expect(compared > 1_500)
    }

    @Test(
        "NET-10 of broken texts we take none that Foundation refuses, and refuse more only where the contract does",
        arguments: 0..<4)
    func mutations(_ seed: UInt64) throws {
        var random = Seeded(state: 1_000 + seed)
        let soup = Array("{}[]\",:\\u0dD89aftn-+.eE \n".utf8) + [0, 0x80, 0xc3, 0xed, 0xff]
        var taken = 0
        for _ in 0..<5_000 {
            var json = try Self.value(&random).json()
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0...json.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: json.insert(soup.randomElement(using: &random)!, at: index)
                case 1 where index < json.count: json[index] = soup.randomElement(using: &random)!
                case 2 where index < json.count: json.remove(at: index)
                default: break
                }
            }
            // A NUL near the start makes Foundation take it for UTF-16 or UTF-32.
            if json.prefix(4).contains(0) { continue }
            let object = try? JSONSerialization.jsonObject(with: Data(json), options: .fragmentsAllowed)
            let text = String(decoding: json, as: UTF8.self)
            let skipped = Self.outcome { () throws(JSONFailure) in
                var reader = JSONReader(json)
                try reader.skipValue()
                try reader.finish()
            }
            switch Self.outcome({ () throws(JSONFailure) in try FieldValue(json: json) }) {
            case .success(let value):
                taken += 1
                #expect(throws: Never.self) { try skipped.get() }
                let theirs = try #require(object, "\(text)")
                #expect(Self.matches(value, theirs), "\(text)")
            case .failure(let failure):
                #expect(throws: failure) { try skipped.get() }
                // Foundation takes these; the contract does not.
                let stricter: Set<JSONFailure.Kind> = [.duplicateMember, .numberDoesNotFit, .text, .tooDeep]
                if object != nil { #expect(stricter.contains(failure.kind), "\(failure) in \(text)") }
            }
        }
        #expect(taken > 100)
    }
}
