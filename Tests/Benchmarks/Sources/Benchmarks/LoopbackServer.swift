#if HTTP
    import Foundation

    /// The least HTTP server: one thread for each connection, the same answer to every request.
    final class LoopbackServer: @unchecked Sendable {
        // Sendable: all but `sockets` is set once, and that is touched under its lock alone.
        private let listener: Int32
        private let answer: [UInt8]
        private let lock = NSLock()
        private var sockets: [Int32] = []
        let url: String

        init(answering body: [UInt8]) throws {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.count)\r\n\r\n"
            answer = Array(head.utf8) + body
            #if canImport(Darwin)
                listener = socket(AF_INET, SOCK_STREAM, 0)
            #else
                listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            #endif
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isListening = withUnsafeMutablePointer(to: &address) { [listener] pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(listener, $0, length) == 0 && listen(listener, 16) == 0
                        && getsockname(listener, $0, &length) == 0
                }
            }
            guard isListening else { throw POSIXError(.EADDRNOTAVAIL) }
            url = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
            Thread.detachNewThread { [self] in
                while case let socket = accept(listener, nil, nil), socket >= 0 {
                    lock.withLock { sockets.append(socket) }
                    Thread.detachNewThread { [self] in serve(socket) }
                }
            }
        }

        func stop() {
            shutdown(listener, Int32(SHUT_RDWR))
            lock.withLock { for socket in sockets { shutdown(socket, Int32(SHUT_RDWR)) } }
        }

        private func serve(_ socket: Int32) {
            var on: Int32 = 1
            setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
            var received: [UInt8] = []
            var piece = [UInt8](repeating: 0, count: 16_384)
            while true {
                while let length = wholeRequest(received) {
                    received.removeFirst(length)
                    guard send(socket, answer, answer.count, Int32(MSG_NOSIGNAL)) == answer.count else { return }
                }
                let count = recv(socket, &piece, piece.count, 0)
                guard count > 0 else {
                    close(socket)
                    return
                }
                received.append(contentsOf: piece[..<count])
            }
        }

        /// How long the first request is, once it is all there.
        private func wholeRequest(_ bytes: [UInt8]) -> Int? {
            let text = String(decoding: bytes, as: UTF8.self)
            guard let end = text.range(of: "\r\n\r\n") else { return nil }
            let head = text[..<end.lowerBound].lowercased()
            let length =
                head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
                .flatMap { Int($0.dropFirst("content-length:".count).filter(\.isNumber)) } ?? 0
            let whole = text[..<end.upperBound].utf8.count + length
            return bytes.count >= whole ? whole : nil
        }
    }
#endif
