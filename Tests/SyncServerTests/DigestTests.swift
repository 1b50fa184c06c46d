import SyncCore
import Testing

@testable import SyncServer

@Suite("What a key stands for")
struct DigestTests {
    /// The two sums, byte by byte, as they were kept from the first server on.
    private struct Plain {
        var first: UInt64 = 0xcbf2_9ce4_8422_2325
        var second: UInt64 = 0x9ae1_6a3b_2f90_404f

        mutating func add(_ bytes: [UInt8]) {
            for byte in bytes {
                first = (first ^ UInt64(byte)) &* 0x100_0000_01b3
                second = (second ^ UInt64(byte)) &* 0x9e37_79b9_7f4a_7c15
                second ^= second >> 29
            }
        }

        mutating func add(_ text: String?) {
            add([text == nil ? 0 : 1])
            add(Array((text ?? "").utf8) + [0xff])
        }
    }

    private func same(_ digest: ContentDigest, _ plain: Plain) -> Bool {
        digest.first == plain.first && digest.second == plain.second
    }

    @Test("a text, and none, count as ever: servers hold digests for a year")
    func texts() {
        for text in [nil, "", "a", "card", "0195a3f2-c4d1-7000-8000-0123456789ab", "Grüße, 世界"] {
            var digest = ContentDigest()
            var plain = Plain()
            digest.add(optional: text)
            plain.add(text)
            #expect(same(digest, plain), "\(text ?? "nil")")
        }
    }

    @Test("a stamp counts as its text")
    func stamps() {
        for packed: UInt64 in [0, 1, 0xffff, 0x1_0000, 0x0195_a3f2_c4d1_0004, 0xabcd_ef01_2345_6789, .max] {
            var digest = ContentDigest()
            var plain = Plain()
            digest.add(stamp: Stamp(packed: packed))
            plain.add(Stamp(packed: packed).description)
            #expect(same(digest, plain), "\(packed)")
        }
        var digest = ContentDigest()
        var plain = Plain()
        digest.add(stamp: nil)
        plain.add(nil)
        #expect(same(digest, plain))
    }

    @Test("a number counts by its eight bytes, the lowest first")
    func numbers() {
        for number in [0, 1, -1, 255, 256, -256, Int64.max, .min] {
            var digest = ContentDigest()
            var plain = Plain()
            digest.add(number: number)
            plain.add((0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })
            #expect(same(digest, plain), "\(number)")
        }
    }
}

@Suite("What came before")
struct DistinctTests {
    @Test("in order and out of it, the same is told as a set tells", arguments: 0..<40 as Range<UInt64>)
    func likeASet(seed: UInt64) {
        let chance = TestRandomness(seed: seed)
        var distinct = Distinct<Int64>()
        var all: Set<Int64> = []
        var next: Int64 = 0
        for _ in 0..<60 {
            // Mostly in order; the first seeds never leave it.
            let isLate = chance.next() % 40 < seed / 4
            next += Int64(chance.next() % 3) + 1
            let number = isLate ? Int64(chance.next() % UInt64(next + 1)) : next
            #expect(distinct.contains(number) == all.contains(number))
            #expect(distinct.insert(number) == all.insert(number).inserted)
        }
    }

    @Test("sequences of several devices are told apart")
    func devices() {
        var used = UsedSequences()
        for sequence: Int64 in [3, 5, 4] {
            for device in ["a", "b"] where sequence != 5 || device == "a" { used.insert(sequence, of: device) }
        }
        #expect(used.contains(5, of: "a") && !used.contains(5, of: "b"))
        #expect(used.contains(4, of: "b") && !used.contains(6, of: "a") && !used.contains(3, of: "c"))
    }
}
