import Foundation

/// An HTTP client that does nothing but keep a server busy: plain sockets, one thread, one request waiting on each.
struct LoadClient {
    let port: UInt16

    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    /// One answer: how long it was under way, and its body.
    struct Answer {
        var status: Int
        var seconds: Double
        var body: [UInt8]
    }

    /// A connection and what has come over it.
    final class Connection {
        let descriptor: CInt
        private var held: [UInt8] = []
        private var piece = [UInt8](repeating: 0, count: 8 * 1_024)

        init(port: UInt16) throws {
            descriptor = socket(AF_INET, streamType, 0)
            guard descriptor >= 0 else { throw Fault(description: "no socket: \(String(cString: strerror(errno)))") }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            let result = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            guard result == 0 else { throw Fault(description: "no connection: \(String(cString: strerror(errno)))") }
            var on: CInt = 1
            setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
        }

        deinit { close(descriptor) }

        func send(_ bytes: [UInt8]) throws {
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
                guard count > 0 else { throw Fault(description: "the server took no more") }
                sent += count
            }
        }

        /// Waits for more bytes; the whole answer's status and body once they are there.
        func receive() throws -> (status: Int, body: [UInt8])? {
            let count = read(descriptor, &piece, piece.count)
            guard count > 0 else { throw Fault(description: "the server ended the connection") }
            held.append(contentsOf: piece[..<count])
            return takeAnswer()
        }

        /// Reads until a text has come; what came is thrown away.
        func wait(for text: String) throws {
            let wanted = Array(text.utf8)
            while Self.find(wanted, in: held, from: 0) == nil {
                let count = read(descriptor, &piece, piece.count)
                guard count > 0 else { throw Fault(description: "the server ended the stream") }
                held.append(contentsOf: piece[..<count])
            }
            held = []
        }

        private func takeAnswer() -> (status: Int, body: [UInt8])? {
            guard let end = Self.find(Self.headEnd, in: held, from: 0) else { return nil }
            let field = Self.find(Self.length, in: held, from: 0).flatMap { $0 < end ? $0 : nil }
            var length = 0
            if let field {
                var place = field + Self.length.count
                while held[place] == 0x20 { place += 1 }
                while (0x30...0x39).contains(held[place]) {
                    length = length * 10 + Int(held[place] - 0x30)
                    place += 1
                }
            }
            let whole = end + 4 + length
            guard held.count >= whole else { return nil }
            let status = Int(String(decoding: held[9..<12], as: UTF8.self)) ?? 0
            let body = Array(held[(end + 4)..<whole])
            held.removeFirst(whole)
            return (status, body)
        }

        private static let headEnd = Array("\r\n\r\n".utf8)
        private static let length = Array("content-length:".utf8)

        private static func lower(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte + 0x20 : byte }

        /// Where a text in lower case is, in whatever case of letters.
        private static func find(_ needle: [UInt8], in bytes: [UInt8], from: Int) -> Int? {
            bytes.withUnsafeBufferPointer { bytes in
                needle.withUnsafeBufferPointer { needle in
                    var place = from
                    while place + needle.count <= bytes.count {
                        var same = 0
                        while same < needle.count, lower(bytes[place + same]) == needle[same] { same += 1 }
                        if same == needle.count { return place }
                        place += 1
                    }
                    return nil
                }
            }
        }
    }

    /// Requests a second over so many kept connections, for so long.
    func rate(of request: [UInt8], connections count: Int, seconds: Double) throws -> Double {
        let connections = try (0..<count).map { _ in try Connection(port: port) }
        var waits = connections.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        let clock = ContinuousClock()
        for connection in connections { try connection.send(request) }
        let start = clock.now
        let end = start + .seconds(seconds)
        var answered = 0
        while clock.now < end {
            guard poll(&waits, nfds_t(waits.count), 1_000) > 0 else { throw Fault(description: "nothing comes") }
            for (index, wait) in waits.enumerated() where wait.revents != 0 {
                guard let answer = try connections[index].receive() else { continue }
                guard answer.status == 200 else {
                    throw Fault(description: "\(answer.status): \(String(decoding: answer.body, as: UTF8.self))")
                }
                answered += 1
                try connections[index].send(request)
            }
        }
        return Double(answered) / ((clock.now - start) / .seconds(1))
    }

    /// One request over a connection of its own, or a kept one.
    func ask(_ request: [UInt8], over kept: Connection? = nil) throws -> Answer {
        let clock = ContinuousClock()
        let start = clock.now
        let connection = try kept ?? Connection(port: port)
        try connection.send(request)
        while true {
            guard let answer = try connection.receive() else { continue }
            return Answer(
                status: answer.status, seconds: (clock.now - start) / .seconds(1), body: answer.body)
        }
    }

    /// So many requests, each over a connection of its own and sent when it is due, whether those before it are answered
    /// or not; for each the seconds from when it was due to its answer.
    func times(of count: Int, every step: Duration, _ request: (Int) -> [UInt8]) throws -> [Double] {
        let clock = ContinuousClock()
        let start = clock.now
        var open: [(connection: Connection, due: ContinuousClock.Instant)] = []
        var waits: [pollfd] = []
        var times: [Double] = []
        var next = 0
        while times.count < count {
            while next < count, start + step * next <= clock.now {
                let connection = try Connection(port: port)
                try connection.send(request(next))
                open.append((connection, start + step * next))
                waits.append(pollfd(fd: connection.descriptor, events: Int16(POLLIN), revents: 0))
                next += 1
            }
            guard poll(&waits, nfds_t(waits.count), open.isEmpty || next < count ? 1 : 10_000) >= 0 else {
                throw Fault(description: String(cString: strerror(errno)))
            }
            for index in waits.indices.reversed() where waits[index].revents != 0 {
                guard let answer = try open[index].connection.receive() else { continue }
                guard answer.status == 200 else {
                    throw Fault(description: String(decoding: answer.body, as: UTF8.self))
                }
                times.append((clock.now - open[index].due) / .seconds(1))
                open.remove(at: index)
                waits.remove(at: index)
            }
        }
        return times
    }

    /// `POST /api/sync` as bytes for the wire.
    static func sync(_ body: String, token: String? = nil, isLast: Bool = false) -> [UInt8] {
        var head = "POST /api/sync HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        if let token { head += "Authorization: Bearer \(token)\r\n" }
        if isLast { head += "Connection: close\r\n" }
        return Array((head + "Content-Length: \(body.utf8.count)\r\n\r\n" + body).utf8)
    }
}

#if canImport(Darwin)
    private let streamType = SOCK_STREAM
#else
    private let streamType = CInt(SOCK_STREAM.rawValue)
#endif
