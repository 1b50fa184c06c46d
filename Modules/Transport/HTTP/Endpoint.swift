import HTTPTypes

/// Where a server is: scheme, host, port and a path in front of all paths (`https://api.example.com/v2`).
public struct Endpoint: Sendable, Hashable, CustomStringConvertible {
    /// Why a text is no endpoint.
    public enum Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// Not `https://host[:port][/path]`.
        case malformed(String)
        /// Plain http to another machine, without the explicit word.
        case plainHTTP(String)

        /// What to write instead.
        public var description: String {
            switch self {
            case .malformed(let text):
                "“\(text)” is no server's address; write it as https://host, with a port and a path if there are any."
            case .plainHTTP(let text):
                "“\(text)” would send everything, tokens too, readably over the network; write https, or http to this machine only."
            }
        }
    }

    /// `https`, or `http` where that is allowed.
    public let scheme: String
    /// In lower case; an IPv6 address in its brackets.
    public let host: String
    /// `nil` is the scheme's own.
    public let port: Int?
    /// Without a slash at its end; may be empty.
    public let path: String

    /// Reads an endpoint.
    ///
    /// - Parameter allowsPlainHTTP: the explicit word for http to machines other than this one. Everything, tokens
    ///   included, can then be read and changed by everybody on the way.
    /// - Throws: ``Failure``.
    public init(_ text: String, allowsPlainHTTP: Bool = false) throws(Failure) {
        guard let parsed = Self.split(text), parsed.query == nil else { throw .malformed(text) }
        scheme = parsed.scheme
        host = parsed.host
        port = parsed.port
        var path = parsed.path
        while path.hasSuffix("/") { path.removeLast() }
        self.path = path
        if scheme == "http", !allowsPlainHTTP, !Self.isLoopback(host) { throw .plainHTTP(text) }
    }

    /// Host and port as they stand in a request.
    public var authority: String { port.map { "\(host):\($0)" } ?? host }

    public var description: String { "\(scheme)://\(authority)\(path)" }

    /// The path and query that `location` means, seen from a request for `path`, if it stays within this origin.
    func resolve(_ location: String, from current: String) -> String? {
        let location = location.prefix { $0 != "#" }
        guard location.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }), !location.contains("\\") else { return nil }
        if location.hasPrefix("//") {
            return ownPath(Self.split("\(scheme):\(location)"))
        }
        if location.hasPrefix("/") { return String(location) }
        let start = current.prefix { $0 != "?" }
        if location.isEmpty { return nil }
        if location.hasPrefix("?") { return String(start) + location }
        if Self.hasScheme(location) { return ownPath(Self.split(String(location))) }
        return String(start[...(start.lastIndex(of: "/") ?? start.startIndex)]) + location
    }

    private func ownPath(_ parts: Parts?) -> String? {
        guard let parts, parts.scheme == scheme, parts.host == host, parts.effectivePort == effectivePort else {
            return nil
        }
        return (parts.path.isEmpty ? "/" : parts.path) + (parts.query.map { "?" + $0 } ?? "")
    }

    private var effectivePort: Int { port ?? (scheme == "https" ? 443 : 80) }

    private struct Parts {
        var scheme: String
        var host: String
        var port: Int?
        var path: String
        var query: String?
        var effectivePort: Int { port ?? (scheme == "https" ? 443 : 80) }
    }

    private static func hasScheme(_ text: some StringProtocol) -> Bool {
        guard let colon = text.firstIndex(of: ":") else { return false }
        return text[..<colon].allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
    }

    private static func split(_ text: String) -> Parts? {
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }), !text.contains("\\"), !text.contains("#"),
            let colon = text.firstIndex(of: ":")
        else { return nil }
        let scheme = text[..<colon].lowercased()
        let rest = text[text.index(after: colon)...]
        guard scheme == "https" || scheme == "http", rest.hasPrefix("//") else { return nil }
        let authority = rest.dropFirst(2).prefix { $0 != "/" && $0 != "?" }
        let tail = rest.dropFirst(2 + authority.count)
        guard !authority.contains("@") else { return nil }
        var host = authority
        var port: Int?
        let searchStart = authority.lastIndex(of: "]") ?? authority.startIndex
        if let colon = authority[searchStart...].lastIndex(of: ":") {
            let digits = authority[authority.index(after: colon)...]
            guard !digits.isEmpty, digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int(digits),
                (1...65535).contains(number)
            else { return nil }
            port = number
            host = authority[..<colon]
        }
        guard isHost(host) else { return nil }
        let path = tail.prefix { $0 != "?" }
        let query = tail.count > path.count ? String(tail.dropFirst(path.count + 1)) : nil
        return Parts(scheme: scheme, host: host.lowercased(), port: port, path: String(path), query: query)
    }

    private static func isHost(_ host: Substring) -> Bool {
        if host.hasPrefix("[") {
            return host.hasSuffix("]") && host.count > 3
                && host.dropFirst().dropLast().allSatisfy { $0.isHexDigit || $0 == ":" || $0 == "." }
        }
        return !host.isEmpty && host.allSatisfy { $0.isLetter || $0.isNumber || "-._".contains($0) }
    }

    /// Whether a host is this machine by its very name: `localhost`, 127.0.0.0/8, or `::1`.
    static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "[::1]" { return true }
        let octets = host.split(separator: ".", omittingEmptySubsequences: false)
        return octets.count == 4 && octets[0] == "127"
            && octets.allSatisfy { !$0.isEmpty && $0.utf8.count <= 3 && UInt8($0) != nil }
    }
}

extension Endpoint {
    /// A request to `path`, which may have a query, behind the endpoint's own path.
    func request(_ method: HTTPRequest.Method, _ path: String) -> HTTPRequest {
        HTTPRequest(method: method, scheme: scheme, authority: authority, path: self.path + path)
    }
}
