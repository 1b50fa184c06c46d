import SyncCore
import SyncTesting
import Testing

@testable import Transport

struct BodyTests {
    private func collect(_ pieces: [[UInt8]], _ limits: AnswerLimits, isGzip: Bool) throws -> AnswerBody {
        let collector = try BodyCollector(limits: limits, isGzip: isGzip)
        for piece in pieces { try collector.append(piece) }
        return try collector.finish()
    }

    private func pieces(_ bytes: [UInt8], of size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    private let text = Array(String(repeating: "some text that repeats, ", count: 10_000).utf8)

    @Test("gzip comes back as it was, whatever the pieces", arguments: [1, 7, 1000, 1 << 20])
    func roundTrip(_ size: Int) throws {
        let packed = try #require(Gzip.compress(text))
        #expect(packed.count < text.count / 30)
        let body = try collect(pieces(packed, of: size), AnswerLimits(), isGzip: true)
        #expect(body.bytes[0..<body.count] == text)
    }

    @Test("members of gzip one after the other are one body")
    func members() throws {
        let packed = try #require(Gzip.compress(Array("one".utf8))) + (try #require(Gzip.compress(Array("two".utf8))))
        for size in [1, 1000] {
            let body = try collect(pieces(packed, of: size), AnswerLimits(), isGzip: true)
            #expect(body.bytes[0..<body.count] == Array("onetwo".utf8))
        }
    }

    @Test("NET-07 gzip that ends early is no whole body, at any byte")
    func truncatedGzip() throws {
        let packed = try #require(Gzip.compress(Array("not much text at all".utf8)))
        for length in 1..<packed.count {
            let failure = #expect(throws: HTTPFailure.self) {
                try collect([Array(packed[..<length])], AnswerLimits(), isGzip: true)
            }
            #expect(failure?.kind == .interrupted)
        }
    }

    @Test("what is not gzip, or has a wrong checksum, is no body")
    func corruptGzip() throws {
        var packed = try #require(Gzip.compress(text))
        #expect(throws: HTTPFailure.self) { try collect([text], AnswerLimits(), isGzip: true) }
        #expect(throws: HTTPFailure.self) { try collect([packed + [1, 2, 3]], AnswerLimits(), isGzip: true) }
        packed[packed.count - 6] ^= 1
        let failure = #expect(throws: HTTPFailure.self) { try collect([packed], AnswerLimits(), isGzip: true) }
        #expect(failure?.kind == .unusable)
    }

    @Test("NET-09 a bomb stops at the absolute limit, a good page packed 30:1 passes")
    func bomb() throws {
        let bomb = GzipBomb.zeros(64 << 20)
        #expect(bomb.count < 1 << 19)
        let limits = AnswerLimits(total: 4 << 20)
        let failure = #expect(throws: HTTPFailure.self) {
            try collect(pieces(bomb, of: 65_536), limits, isGzip: true)
        }
        #expect(failure?.kind == .unusable)
        let page = try #require(Gzip.compress(text))
        #expect(try collect([page], limits, isGzip: true).count == text.count)
    }

    @Test("I12 a body beyond the limit is refused without gzip too, and at the limit it is taken")
    func plainLimit() throws {
        let limits = AnswerLimits(total: 100, memory: 10)
        #expect(try collect([[UInt8](repeating: 1, count: 100)], limits, isGzip: false).count == 100)
        #expect(throws: HTTPFailure.self) { try collect([[UInt8](repeating: 1, count: 101)], limits, isGzip: false) }
    }

    @Test("a body beyond 1 MiB waits in a file without a name and reads the same")
    func file() throws {
        let small = try collect([[UInt8](repeating: 1, count: 1 << 20)], AnswerLimits(), isGzip: false)
        #expect(!small.isInFile)
        let bytes = (0..<(3 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let body = try collect(pieces(bytes, of: 100_000), AnswerLimits(), isGzip: false)
        #expect(body.isInFile)
        #expect(body.bytes[0..<body.count] == bytes)
        body.release(before: body.count)
        #expect(body.bytes[0..<body.count] == bytes)
    }

    @Test("a folder that is not there is this side's trouble")
    func noFolder() {
        let limits = AnswerLimits(memory: 1, folder: "/no such folder")
        let failure = #expect(throws: HTTPFailure.self) { try collect([[1, 2, 3]], limits, isGzip: false) }
        #expect(failure?.kind == .local)
    }

    @Test("nothing is a body as well", arguments: [true, false])
    func empty(_ isGzip: Bool) throws {
        #expect(try collect([], AnswerLimits(), isGzip: isGzip).count == 0)
    }
}
