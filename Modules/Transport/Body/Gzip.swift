import CZlib

/// gzip (RFC 1952) through zlib.
enum Gzip {
    /// Why bytes could not be inflated.
    enum Failure: Error, Sendable, Hashable {
        case corrupt
        case tooLong
    }

    /// 15 bits of window, and 16 for gzip's own head and tail.
    private static let windowBits: Int32 = 15 + 16

    /// The bytes compressed; level 1 is the contract's measure for requests. `nil` only if memory ran out.
    static func compress(_ bytes: [UInt8], level: Int32 = 1) -> [UInt8]? {
        var stream = z_stream()
        guard ferry_deflate_init(&stream, level, windowBits) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let bound = Int(deflateBound(&stream, UInt(bytes.count)))
        var code = Z_OK
        let compressed = [UInt8](unsafeUninitializedCapacity: bound) { output, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib does not write through next_in.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(bound)
                code = deflate(&stream, Z_FINISH)
            }
            count = bound - Int(stream.avail_out)
        }
        return code == Z_STREAM_END ? compressed : nil
    }

    /// Inflates piece by piece; used by one reader.
    final class Inflater {
        private let stream: UnsafeMutablePointer<z_stream>
        private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        /// Whether the last member has come to its end, checksum included.
        private(set) var isWhole = false

        init?() {
            stream = .allocate(capacity: 1)
            stream.initialize(to: z_stream())
            // `deinit` gives it back, here, too.
            guard ferry_inflate_init(stream, Gzip.windowBits) == Z_OK else { return nil }
        }

        deinit {
            inflateEnd(stream)
            stream.deallocate()
        }

        /// Inflates a piece and hands the result on, at most `buffer` bytes at a time.
        func inflate<E: Error>(
            _ piece: [UInt8], into sink: (UnsafeBufferPointer<UInt8>) throws(E) -> Void
        ) throws(InflateError<E>) {
            var consumed = 0
            while consumed < piece.count {
                if isWhole {
                    // Another member may follow (RFC 1952, section 2.2).
                    guard inflateReset(stream) == Z_OK else { throw .corrupt }
                    isWhole = false
                }
                let (code, used, made) = step(piece, from: consumed)
                consumed += used
                if made > 0 {
                    do throws(E) {
                        try buffer.withUnsafeBufferPointer { whole throws(E) in
                            try sink(UnsafeBufferPointer(rebasing: whole[..<made]))
                        }
                    } catch { throw .sink(error) }
                }
                switch code {
                case Z_STREAM_END: isWhole = true
                case Z_OK: break
                case Z_BUF_ERROR where used > 0 || made > 0: break
                case Z_BUF_ERROR where consumed == piece.count: return
                default: throw .corrupt
                }
            }
            // What zlib still holds back after the last byte of input.
            while !isWhole {
                let (code, _, made) = step([], from: 0)
                guard made > 0 else {
                    guard code == Z_BUF_ERROR || code == Z_OK || code == Z_STREAM_END else { throw .corrupt }
                    isWhole = code == Z_STREAM_END
                    return
                }
                do throws(E) {
                    try buffer.withUnsafeBufferPointer { whole throws(E) in
                        try sink(UnsafeBufferPointer(rebasing: whole[..<made]))
                    }
                } catch { throw .sink(error) }
                if code == Z_STREAM_END { isWhole = true }
            }
        }

        private func step(_ piece: [UInt8], from start: Int) -> (code: Int32, used: Int, made: Int) {
            let room = buffer.count
            return buffer.withUnsafeMutableBufferPointer { output in
                piece.withUnsafeBufferPointer { input in
                    let rest = input.count - start
                    stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress.map { $0 + start })
                    stream.pointee.avail_in = UInt32(rest)
                    stream.pointee.next_out = output.baseAddress
                    stream.pointee.avail_out = UInt32(room)
                    let code = CZlib.inflate(stream, Z_NO_FLUSH)
                    return (code, rest - Int(stream.pointee.avail_in), room - Int(stream.pointee.avail_out))
                }
            }
        }
    }

    /// What went wrong while inflating: the bytes, or who takes the result.
    enum InflateError<E: Error>: Error {
        case corrupt
        case sink(E)
    }
}
