import Foundation
import SyncTesting
import Testing

/// What the hostile server does, seen from a plain socket.
@Suite(.timeLimit(.minutes(20))) struct HostileServerTests {
    private func run(_ scripts: [HostileScript], _ body: (HostileServer) async throws -> Void) async throws {
        let server = try HostileServer(scripts)
        let result: Result<Void, any Error>
        do { result = .success(try await body(server)) } catch { result = .failure(error) }
        server.stop()
        try result.get()
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test("Requests take the scripts in order, over one connection, and the last one serves all that come after")
    func inOrder() async throws {
        try await run([.answer("one"), .answer(status: 404, headers: ["X-A: b"], "two")]) { server in
            let client = try PlainClient(server.port)
            client.send("POST /a HTTP/1.1\r\nX-Name: Value\r\nContent-Length: 3\r\n\r\nabc")
            #expect(client.read(until: "one").hasPrefix("HTTP/1.1 200"))
            for _ in 0..<2 {
                client.send("GET /b HTTP/1.1\r\n\r\n")
                let answer = client.read(until: "two")
                #expect(answer.hasPrefix("HTTP/1.1 404"))
                #expect(answer.contains("X-A: b\r\n") && answer.contains("Content-Length: 3\r\n"))
            }
            await server.waitForRequests(3)
            #expect(server.requests.map(\.path) == ["/a", "/b", "/b"])
            #expect(server.requests[0].method == "POST")
            #expect(server.requests[0].headers["x-name"] == "Value", "names are in lower case")
            #expect(server.requests[0].body == Array("abc".utf8))
            #expect(server.connectionCount == 1)
        }
    }

    @Test("An answer can be made of the request, flooded, or dripped")
    func acts() async throws {
        let echo = HostileScript([.answer { Array("path \($0.path)".utf8) }, .close])
        let flood = HostileScript([.flood(Array("ab".utf8), times: 3_000), .close])
        let drip = HostileScript([.drip(Array("slow".utf8), every: .zero), .close])
        try await run([echo, flood, drip]) { server in
            let echoed = try PlainClient(server.port).ask("/x")
            let flooded = try PlainClient(server.port).ask("/")
            let dripped = try PlainClient(server.port).ask("/")
            #expect(text(echoed) == "path /x")
            #expect(flooded.count == 6_000)
            #expect(text(dripped) == "slow")
            #expect(server.connectionCount == 3)
        }
    }

    @Test("NET-07 a truncated body has less than it announces; chunks without the last one have no end")
    func truncated() async throws {
        let scripts: [HostileScript] = [
            .truncated([1, 2, 3], announcing: 9), .chunked(Array("abcd".utf8), isWhole: false),
            .chunked(Array("abcd".utf8), isWhole: true),
        ]
        try await run(scripts) { server in
            let short = try PlainClient(server.port).ask("/")
            #expect(text(short).contains("Content-Length: 9\r\n"))
            #expect(short.suffix(7) == Array("\r\n\r\n".utf8) + [1, 2, 3])
            let open = text(try PlainClient(server.port).ask("/"))
            #expect(open.hasSuffix("\r\n\r\n2\r\nab\r\n2\r\ncd\r\n"))
            let client = try PlainClient(server.port)
            client.send("GET / HTTP/1.1\r\n\r\n")
            #expect(client.read(until: "0\r\n\r\n").hasSuffix("2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"))
        }
    }

    @Test("A connection ends unanswered, breaks after the request, or breaks before it is read")
    func broken() async throws {
        try await run([.closedUnanswered, .resetAfterRequest, .resetAtOnce, .answer("whole")]) { server in
            for _ in 0..<3 { #expect(try PlainClient(server.port).ask("/").isEmpty) }
            let client = try PlainClient(server.port)
            client.send("GET / HTTP/1.1\r\n\r\n")
            #expect(client.read(until: "whole").hasSuffix("whole"))
            // The one that broke at once was never read.
            #expect(server.requests.count == 3)
            #expect(server.connectionCount == 4)
        }
    }

    @Test("A silent answer says nothing until the server stops; stopping again is harmless, and nobody listens then")
    func silent() async throws {
        let server = try HostileServer([.silent])
        let client = try PlainClient(server.port)
        client.send("GET / HTTP/1.1\r\n\r\n")
        await server.waitForRequests(1)
        server.stop()
        #expect(client.readToEnd().isEmpty)
        server.stop()
        #expect(throws: PlainClient.Failure.self) { try PlainClient(server.port) }
        // Who waits for what will never come is let go.
        await server.waitForRequests(1)
        let closed = try HostileServer.closedPort()
        #expect(throws: PlainClient.Failure.self) { try PlainClient(closed) }
    }

    @Test("A portal is a page with 200; a redirect names its place; a bomb is small")
    func ready() async throws {
        try await run([.portal, .redirect(307, to: "/there"), .bomb(inflatingTo: 1 << 20)]) { server in
            let client = try PlainClient(server.port)
            client.send("GET / HTTP/1.1\r\n\r\n")
            let portal = client.read(until: "</html>")
            #expect(portal.hasPrefix("HTTP/1.1 200") && portal.contains("Content-Type: text/html"))
            client.send("GET / HTTP/1.1\r\n\r\n")
            #expect(client.read(until: "\r\n\r\n").contains("Location: /there\r\n"))
            client.send("GET / HTTP/1.1\r\n\r\n")
            let bomb = client.read(until: "\r\n\r\n")
            #expect(bomb.contains("Content-Encoding: gzip\r\n"))
            let length = bomb.split(separator: "Content-Length: ").last?.prefix { $0.isNumber }
            #expect((length.flatMap { Int($0) } ?? .max) < 1 << 13)
        }
    }
}

/// A socket that says what it is told, and reads.
private final class PlainClient {
    struct Failure: Error {}
    private let socket: Int32

    init(_ port: UInt16) throws {
        socket = systemSocket()
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        // `deinit` closes it, here, too.
        guard code == 0 else { throw Failure() }
    }

    deinit { _ = close(socket) }

    func send(_ text: String) {
        let bytes = Array(text.utf8)
        // A server that has broken off already does not take it all.
        _ = systemSend(socket, bytes)
    }

    /// Everything up to this text, or to the end.
    func read(until mark: String) -> String {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        let end = Array(mark.utf8)
        while recv(socket, &byte, 1, 0) == 1 {
            bytes.append(byte)
            if bytes.suffix(end.count) == end[...] { break }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    func readToEnd() -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(socket, &piece, piece.count, 0)
            guard count > 0 else { return bytes }
            bytes += piece[..<count]
        }
    }

    /// One request, and all that comes until the connection ends.
    func ask(_ path: String) -> [UInt8] {
        send("GET \(path) HTTP/1.1\r\n\r\n")
        return readToEnd()
    }
}

// The C functions, under names that the class's own do not hide.
private func systemSocket() -> Int32 {
    #if canImport(Glibc)
        socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #else
        socket(AF_INET, SOCK_STREAM, 0)
    #endif
}
private func systemSend(_ socket: Int32, _ bytes: [UInt8]) -> Int {
    #if canImport(Darwin)
        send(socket, bytes, bytes.count, 0)
    #else
        send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    #endif
}
