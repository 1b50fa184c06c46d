/// One thing that the hostile server does after it has read a request.
public enum HostileAct: Sendable {
    /// Sends these bytes, whatever they are.
    case send([UInt8])
    /// Sends what comes out of the request: for answers that must echo something.
    case answer(@Sendable (HostileRequest) -> [UInt8])
    /// Sends these bytes so many times.
    case flood([UInt8], times: Int)
    /// Sends one byte at a time, with a pause in front of each.
    case drip([UInt8], every: Duration)
    /// Says nothing more, and keeps the connection until the client or the server ends it.
    case silence
    /// Ends the connection in order (FIN).
    case close
    /// Breaks the connection (RST).
    case reset
}

/// What happens to one request.
public struct HostileScript: Sendable {
    /// Whether the request is read before the acts begin.
    public var readsRequest: Bool
    public var acts: [HostileAct]

    public init(_ acts: [HostileAct], readsRequest: Bool = true) {
        self.acts = acts
        self.readsRequest = readsRequest
    }
}

/// A request as it came in.
public struct HostileRequest: Sendable, Hashable {
    public var method: String
    public var path: String
    /// Names in lower case.
    public var headers: [String: String]
    /// As it was on the wire.
    public var body: [UInt8]
}

// Ready-made misbehaviour.
extension HostileScript {
    /// A well-behaved answer.
    public static func answer(
        status: Int = 200, type: String = "application/json", headers: [String] = [], _ body: [UInt8]
    ) -> Self {
        Self([.send(head(status, type, headers + ["Content-Length: \(body.count)"]) + body)])
    }

    /// A well-behaved answer.
    public static func answer(
        status: Int = 200, type: String = "application/json", headers: [String] = [], _ text: String
    ) -> Self {
        answer(status: status, type: type, headers: headers, Array(text.utf8))
    }

    /// The body ends before the length that the head announces.
    public static func truncated(_ body: [UInt8], announcing length: Int) -> Self {
        Self([.send(head(200, "application/json", ["Content-Length: \(length)"]) + body), .close])
    }

    /// A body in chunks; without its last chunk it is no whole body.
    public static func chunked(_ body: [UInt8], isWhole: Bool) -> Self {
        var bytes = head(200, "application/json", ["Transfer-Encoding: chunked"])
        let middle = body.count / 2
        for part in [body[..<middle], body[middle...]] where !part.isEmpty {
            bytes += Array("\(String(part.count, radix: 16))\r\n".utf8) + part + Array("\r\n".utf8)
        }
        if isWhole { bytes += Array("0\r\n\r\n".utf8) }
        return Self(isWhole ? [.send(bytes)] : [.send(bytes), .close])
    }

    /// A gzip body of zeros that grows to so many bytes, about 158 times its own size. Its checksum is wrong: who gets
    /// that far has not kept its limits.
    public static func bomb(inflatingTo count: Int) -> Self {
        let body = GzipBomb.zeros(count)
        return answer(headers: ["Content-Encoding: gzip"], body)
    }

    /// A redirect.
    public static func redirect(_ status: Int, to location: String) -> Self {
        Self([.send(head(status, "text/plain", ["Location: \(location)", "Content-Length: 0"]))])
    }

    /// A captive portal's page with status 200.
    public static let portal = answer(
        type: "text/html", "<html><head><title>Welcome</title></head><body>Accept our terms to go on</body></html>")

    /// The connection ends before the first byte of an answer.
    public static let closedUnanswered = Self([.close])

    /// The connection breaks after the request was read: it may have been carried out.
    public static let resetAfterRequest = Self([.reset])

    /// The connection breaks before the request was read.
    public static let resetAtOnce = Self([.reset], readsRequest: false)

    /// No answer, and no end.
    public static let silent = Self([.silence])

    /// The head of an answer.
    public static func head(_ status: Int, _ type: String, _ headers: [String] = []) -> [UInt8] {
        let lines = ["HTTP/1.1 \(status) Status", "Content-Type: \(type)"] + headers
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }
}

/// A gzip stream of zeros, written by hand: RFC 1951's fixed codes for one literal and many repeats of it.
package enum GzipBomb {
    package static func zeros(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]
        var bits: UInt64 = 0
        var filled = 0
        func put(_ code: UInt64, _ length: Int) {
            // Huffman codes go in with their highest bit first.
            for index in stride(from: length - 1, through: 0, by: -1) {
                bits |= (code >> UInt64(index) & 1) << UInt64(filled)
                filled += 1
                if filled == 8 {
                    bytes.append(UInt8(truncatingIfNeeded: bits))
                    (bits, filled) = (0, 0)
                }
            }
        }
        // The last block, fixed codes; these three bits go in with the lowest first.
        put(0b110, 3)
        // A zero as it is, then 258 of what stood one byte before, again and again.
        put(0b0011_0000, 8)
        for _ in 0..<(max(count - 1, 0) / 258) {
            put(0b1100_0101, 8)
            put(0, 5)
        }
        put(0, 7)
        if filled > 0 { bytes.append(UInt8(truncatingIfNeeded: bits)) }
        return bytes + [0, 0, 0, 0] + (0..<4).map { UInt8(truncatingIfNeeded: count >> ($0 * 8)) }
    }
}
