import Foundation

/// An HTTP server on this machine that answers each request at once, by a closure; one thread a connection, and nothing
/// is kept.
final class InstantServer: @unchecked Sendable {
    // Sendable: `connections` and `isStopped` are read and written under `lock` alone.
    typealias Answer = @Sendable (_ body: UnsafeBufferPointer<UInt8>) -> [UInt8]

    let port: UInt16
    private let listener: Int32
    private let answer: Answer
    private let lock = NSLock()
    private var connections: Set<Int32> = []
    private var isStopped = false

    var url: String { "http://127.0.0.1:\(port)" }

    /// Starts it on a free port.
    init(_ answer: @escaping Answer) throws {
        self.answer = answer
        #if canImport(Darwin)
            listener = socket(AF_INET, SOCK_STREAM, 0)
        #else
            listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard bind(listener, address, length) == 0, listen(listener, 16) == 0 else { return errno }
                return getsockname(listener, address, &length) == 0 ? 0 : errno
            }
        }
        guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO) }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in accept() }
    }

    /// Ends all connections.
    func stop() {
        lock.withLock {
            isStopped = true
            for connection in connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private func accept() {
        while true {
            #if canImport(Darwin)
                let connection = Darwin.accept(listener, nil, nil)
            #else
                let connection = Glibc.accept(listener, nil, nil)
            #endif
            guard connection >= 0 else { return }
            var on: Int32 = 1
            setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
            let isWelcome = lock.withLock {
                if !isStopped { connections.insert(connection) }
                return !isStopped
            }
            guard isWelcome else {
                close(connection)
                return
            }
            Thread.detachNewThread { [self] in serve(connection) }
        }
    }

    private func serve(_ connection: Int32) {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var count = 0
        while true {
            guard let end = Self.headEnd(buffer, count) else {
                let got = buffer.withUnsafeMutableBytes {
                    recv(connection, $0.baseAddress! + count, $0.count - count, 0)
                }
                guard got > 0 else { break }
                count += got
                continue
            }
            let length = Self.contentLength(buffer, end)
            let isThere = readOn(connection, &buffer, &count, until: end + length)
            guard isThere else { break }
            let bytes = buffer.withUnsafeBufferPointer { answer(UnsafeBufferPointer(rebasing: $0[end..<end + length])) }
            guard Self.write(connection, bytes) else { break }
            buffer.replaceSubrange(0..<(count - end - length), with: Array(buffer[(end + length)..<count]))
            count -= end + length
        }
        lock.withLock { _ = connections.remove(connection) }
        close(connection)
    }

    private func readOn(_ connection: Int32, _ buffer: inout [UInt8], _ count: inout Int, until end: Int) -> Bool {
        if end > buffer.count { buffer += [UInt8](repeating: 0, count: end - buffer.count) }
        while count < end {
            let got = buffer.withUnsafeMutableBytes { recv(connection, $0.baseAddress! + count, $0.count - count, 0) }
            guard got > 0 else { return false }
            count += got
        }
        return true
    }

    private static func headEnd(_ buffer: [UInt8], _ count: Int) -> Int? {
        guard count >= 4 else { return nil }
        let (cr, lf) = (UInt8(ascii: "\r"), UInt8(ascii: "\n"))
        for place in 3..<count
        where buffer[place] == lf && buffer[place - 1] == cr && buffer[place - 2] == lf && buffer[place - 3] == cr {
            return place + 1
        }
        return nil
    }

    /// Byte by byte, since what the server does with a head is no figure of the client's.
    private static func contentLength(_ buffer: [UInt8], _ end: Int) -> Int {
        var line = 0
        while line < end {
            var next = line
            while next < end, buffer[next] != UInt8(ascii: "\n") { next += 1 }
            if next - line > name.count, zip(buffer[line...], name).allSatisfy({ $0 | 0x20 == $1 || $0 == $1 }) {
                var length = 0
                for byte in buffer[(line + name.count)..<next] where byte >= 0x30 && byte <= 0x39 {
                    length = length * 10 + Int(byte - 0x30)
                }
                return length
            }
            line = next + 1
        }
        return 0
    }

    private static let name = Array("content-length:".utf8)

    private static func write(_ connection: Int32, _ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { bytes in
            var sent = 0
            while sent < bytes.count {
                #if canImport(Darwin)
                    let result = send(connection, bytes.baseAddress! + sent, bytes.count - sent, 0)
                #else
                    let result = send(connection, bytes.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
                #endif
                guard result > 0 else { return false }
                sent += result
            }
            return true
        }
    }

    /// A whole answer.
    static func json(_ status: Int, _ body: [UInt8]) -> [UInt8] {
        Array("HTTP/1.1 \(status) OK\r\nContent-Type: application/json\r\nContent-Length: \(body.count)\r\n\r\n".utf8)
            + body
    }
}
