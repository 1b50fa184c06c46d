#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Plain blocking sockets on the loopback address.
enum HostileSocket {
    /// A listening socket on a port of the system's choice.
    static func listen() throws -> (socket: Int32, port: UInt16) {
        let socket = systemSocket()
        guard socket >= 0 else { throw HostileServer.Failure(call: "socket", code: errno) }
        var address = loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                if bind(socket, address, length) != 0 { return errno }
                if systemListen(socket, 128) != 0 { return errno }
                return getsockname(socket, address, &length) != 0 ? errno : 0
            }
        }
        guard code == 0 else {
            close(socket)
            throw HostileServer.Failure(call: "listen", code: code)
        }
        return (socket, UInt16(bigEndian: address.sin_port))
    }

    static func accept(_ listener: Int32) -> Int32? {
        while true {
            let socket = systemAccept(listener, nil, nil)
            if socket >= 0 {
                #if canImport(Darwin)
                    var on: Int32 = 1
                    setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
                #endif
                var noDelay: Int32 = 1
                setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &noDelay, socklen_t(MemoryLayout<Int32>.size))
                return socket
            }
            if errno != EINTR && errno != ECONNABORTED { return nil }
        }
    }

    static func close(_ socket: Int32) { _ = systemClose(socket) }

    /// Wakes whoever reads or accepts on it.
    static func end(_ socket: Int32) { _ = shutdown(socket, Int32(SHUT_RDWR)) }

    /// Connects to a port and leaves, so that who accepts there wakes.
    static func knock(_ port: UInt16) {
        let socket = systemSocket()
        var address = loopback(port: port)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = connect(socket, address, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        close(socket)
    }

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    /// Makes the coming close a reset.
    static func makeReset(_ socket: Int32) {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
    }

    static func write(_ socket: Int32, _ bytes: [UInt8]) -> Bool {
        #if canImport(Darwin)
            let flags: Int32 = 0
        #else
            let flags = Int32(MSG_NOSIGNAL)
        #endif
        return bytes.withUnsafeBytes { bytes in
            var sent = 0
            while sent < bytes.count {
                let result = systemSend(socket, bytes.baseAddress! + sent, bytes.count - sent, flags)
                if result < 0 {
                    if errno == EINTR { continue }
                    return false
                }
                sent += result
            }
            return true
        }
    }

    /// Reads until the other side ends.
    static func readToEnd(_ socket: Int32) {
        var buffer: [UInt8] = []
        while read(socket, &buffer) { buffer.removeAll(keepingCapacity: true) }
    }

    /// Reads one request; `nil` if the other side ended before its end. What was read beyond it stays in `buffer`.
    static func readRequest(_ socket: Int32, _ buffer: inout [UInt8]) -> HostileRequest? {
        let mark = Array("\r\n\r\n".utf8)
        var searched = 0
        var end: Int?
        while end == nil {
            end = find(mark, in: buffer, from: max(searched - 3, 0))
            searched = buffer.count
            if end == nil, !read(socket, &buffer) { return nil }
        }
        guard let end else { return nil }
        let lines = String(decoding: buffer[..<end], as: UTF8.self).split(separator: "\r\n")
        let first = (lines.first ?? "").split(separator: " ")
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let name = line.prefix { $0 != ":" }
            headers[name.lowercased()] = String(line.dropFirst(name.count + 1).drop { $0 == " " })
        }
        let start = end + 4
        let length = headers["content-length"].flatMap { Int($0) } ?? 0
        while buffer.count < start + length {
            guard read(socket, &buffer) else { return nil }
        }
        let body = Array(buffer[start..<start + length])
        buffer.removeFirst(start + length)
        guard first.count >= 2 else { return nil }
        return HostileRequest(method: String(first[0]), path: String(first[1]), headers: headers, body: body)
    }

    private static func find(_ mark: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        guard bytes.count >= mark.count, start <= bytes.count - mark.count else { return nil }
        return (start...(bytes.count - mark.count)).first { bytes[$0..<$0 + mark.count].elementsEqual(mark) }
    }

    private static func read(_ socket: Int32, _ buffer: inout [UInt8]) -> Bool {
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let result = recv(socket, &piece, piece.count, 0)
            if result > 0 {
                buffer.append(contentsOf: piece[..<result])
                return true
            }
            if result == 0 || errno != EINTR { return false }
        }
    }
}

// The C functions, under names that the enum's own do not hide.
private func systemListen(_ socket: Int32, _ backlog: Int32) -> Int32 { listen(socket, backlog) }
private func systemClose(_ socket: Int32) -> Int32 { close(socket) }
private func systemAccept(
    _ socket: Int32, _ address: UnsafeMutablePointer<sockaddr>?, _ length: UnsafeMutablePointer<socklen_t>?
) -> Int32 { accept(socket, address, length) }
private func systemSend(_ socket: Int32, _ bytes: UnsafeRawPointer, _ count: Int, _ flags: Int32) -> Int {
    send(socket, bytes, count, flags)
}
private func systemSocket() -> Int32 {
    #if canImport(Glibc)
        socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #else
        socket(AF_INET, SOCK_STREAM, 0)
    #endif
}
