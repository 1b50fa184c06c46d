internal import CServerZlib

/// Gzip (RFC 1952), with a limit that no input passes.
enum Gzip {
    enum Failure: Error, Equatable {
        /// More bytes than allowed would come out.
        case tooLarge
        /// Not gzip, damaged, or not complete.
        case damaged
    }

    /// What was compressed; several members after each other count as one.
    ///
    /// Stops as soon as more than `limit` bytes have come out, so that a bomb costs the limit at most.
    static func inflate(_ bytes: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        var stream = z_stream()
        guard server_gzip_inflate_begin(&stream) == Z_OK else { throw .damaged }
        defer { inflateEnd(&stream) }
        var output: [UInt8] = []
        output.reserveCapacity(min(limit, bytes.count * 4))
        var piece = [UInt8](repeating: 0, count: min(64 * 1_024, limit + 1))
        var taken = 0
        while true {
            let (status, used, made) = step(&stream, input: bytes, from: taken, into: &piece)
            taken += used
            guard output.count + made <= limit else { throw .tooLarge }
            output.append(contentsOf: piece[..<made])
            if status == Z_STREAM_END {
                if taken == bytes.count { return output }
                guard inflateReset(&stream) == Z_OK else { throw .damaged }
            } else if status != Z_OK || (used == 0 && made == 0) {
                throw .damaged
            }
        }
    }

    private static func step(
        _ stream: inout z_stream, input: [UInt8], from: Int, into piece: inout [UInt8]
    ) -> (status: CInt, used: Int, made: Int) {
        input.withUnsafeBufferPointer { input in
            piece.withUnsafeMutableBufferPointer { piece in
                // zlib does not write to its input; the pointer's type is older than `const`.
                stream.next_in = input.baseAddress.map { UnsafeMutablePointer(mutating: $0 + from) }
                stream.avail_in = CUnsignedInt(input.count - from)
                stream.next_out = piece.baseAddress
                stream.avail_out = CUnsignedInt(piece.count)
                let status = CServerZlib.inflate(&stream, Z_NO_FLUSH)
                return (status, input.count - from - Int(stream.avail_in), piece.count - Int(stream.avail_out))
            }
        }
    }

    /// The bytes compressed at the quickest level; nil where that would not make them fewer.
    static func deflate(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        guard server_gzip_deflate_begin(&stream, 1) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        return deflated(bytes, &stream)
    }

    /// The end of a body, ready to stand behind whatever beginning (``joined(_:_:count:)``): its check sum, and its bytes
    /// compressed by themselves. nil where that would not make them fewer.
    static func packedTail(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        guard server_raw_deflate_begin(&stream, 1) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        guard let packed = deflated(bytes, &stream) else { return nil }
        return littleEndian(checksum(bytes)) + packed
    }

    /// A whole member: the beginning as it is, in blocks that are only stored, and the tail as ``packedTail(_:)`` made it of
    /// `count` bytes.
    static func joined(_ first: [UInt8], _ tail: [UInt8], count: Int) -> [UInt8] {
        var member: [UInt8] = []
        member.reserveCapacity(first.count + tail.count + 64)
        // No name and no time; made at the quickest level, on Unix.
        member += [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3]
        for start in stride(from: 0, to: first.count, by: 0xffff) {
            let block = first[start..<min(start + 0xffff, first.count)]
            let (low, high) = (UInt8(block.count & 0xff), UInt8(block.count >> 8))
            // Not the last block, stored; its length, and that inverted.
            member += [0, low, high, ~low, ~high]
            member += block
        }
        member += tail[4...]
        let sum = tail[..<4].reversed().reduce(0) { $0 << 8 | CUnsignedLong($1) }
        member += littleEndian(server_crc32_combine(checksum(first), sum, count))
        member += littleEndian(CUnsignedLong(truncatingIfNeeded: first.count + count))
        return member
    }

    private static func checksum(_ bytes: [UInt8]) -> CUnsignedLong {
        bytes.withUnsafeBufferPointer { crc32(0, $0.baseAddress, CUnsignedInt($0.count)) }
    }

    private static func littleEndian(_ number: CUnsignedLong) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }

    private static func deflated(_ bytes: [UInt8], _ stream: inout z_stream) -> [UInt8]? {
        guard bytes.count < Int(CUnsignedInt.max) else { return nil }
        let output = [UInt8](unsafeUninitializedCapacity: bytes.count) { output, count in
            let status = bytes.withUnsafeBufferPointer { input in
                stream.next_in = input.baseAddress.map { UnsafeMutablePointer(mutating: $0) }
                stream.avail_in = CUnsignedInt(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = CUnsignedInt(output.count)
                return CServerZlib.deflate(&stream, Z_FINISH)
            }
            count = status == Z_STREAM_END ? output.count - Int(stream.avail_out) : 0
        }
        return output.isEmpty ? nil : output
    }
}
