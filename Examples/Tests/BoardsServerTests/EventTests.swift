import Foundation
import SyncServer
import Testing

@testable import BoardsServer

/// Server-sent events, as PROTOCOL.md, section 3, has them.
@Suite("an event stream", .timeLimit(.minutes(15))) struct EventTests {
    private static let ask = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n"

    @Test("a commit is an event with the version as its id, told to all streams of the account")
    func commit() async throws {
        let backend = HeldBackend(version: 57)
        try await TestServer.run(backend) { server in
            try await RawConnection.open(server.port) { one in
                try await RawConnection.open(server.port) { other in
                    try await Self.begin(&one)
                    try await Self.begin(&other)
                    backend.commit(58, scopes: ["board:8f2e"])
                    for text in [try await one.until("]}\n\n"), try await other.until("]}\n\n")] {
                        let event = "id: 58\ndata: {\"currentSyncVersion\":58,\"scopes\":[\"board:8f2e\"]}\n\n"
                        #expect(text?.contains(event) == true)
                    }
                }
            }
        }
    }

    @Test(
        "an id below the present version gets one event at once; above, equal, strange or absent, none",
        arguments: [("56", true), ("0", true), ("57", false), ("58", false), ("x", false), (nil, false)])
    func lastEventID(id: String?, isTold: Bool) async throws {
        let backend = HeldBackend(version: 57)
        try await TestServer.run(backend) { server in
            try await RawConnection.open(server.port) { connection in
                try await Self.begin(&connection, fields: id.map { ["Last-Event-ID: \($0)"] } ?? [])
                if isTold {
                    #expect(try await connection.until("}\n\n")?.contains("id: 57\n") == true)
                }
                // The next thing told is the next commit: nothing stood between.
                backend.commit(60)
                let next = try await connection.until("}\n\n")
                #expect(next?.contains("id: 60\n") == true && next?.contains("id: 57\n") == false)
            }
        }
    }

    @Test("a quiet stream gets a comment line at each heartbeat")
    func heartbeat() async throws {
        var options = ServerOptions.testing
        options.events.heartbeat = 0.02
        try await TestServer.run(HeldBackend(), options: options) { server in
            try await RawConnection.open(server.port) { connection in
                try await Self.begin(&connection)
                for _ in 0..<3 { #expect(try await connection.until(": still here\n\n") != nil) }
            }
        }
    }

    @Test("a reader that takes nothing is dropped, and costs the others nothing")
    func slowReader() async throws {
        var options = ServerOptions.testing
        options.events.heldBytes = 4_096
        let backend = HeldBackend()
        try await TestServer.run(backend, options: options) { server in
            try await RawConnection.open(server.port, isReading: false) { slow in
                try await slow.send(Self.ask + "\r\n")
                try await RawConnection.open(server.port) { quick in
                    try await Self.begin(&quick)
                    while server.program.vitals.reading.streams < 2 { await Task.yield() }
                    let scopes = [String(repeating: "s", count: 60_000)]
                    var version: Int64 = 0
                    while server.program.vitals.reading.streamsDropped == 0 {
                        version += 1
                        backend.commit(version, scopes: scopes)
                        #expect(try await quick.until("]}\n\n") != nil)
                    }
                    #expect(server.program.vitals.reading.streamsDropped == 1)
                }
            }
        }
    }

    @Test("a client that leaves is no stream any more")
    func leaving() async throws {
        try await TestServer.run(HeldBackend()) { server in
            try await RawConnection.open(server.port) { connection in
                try await Self.begin(&connection)
                #expect(server.program.vitals.reading.streams == 1)
            }
            while server.program.vitals.reading.streams > 0 { await Task.yield() }
        }
    }

    @Test("a stop ends the streams properly")
    func stop() async throws {
        let (begun, begin) = AsyncStream<Void>.makeStream()
        try await withThrowingTaskGroup(of: String.self) { group in
            try await TestServer.run(HeldBackend()) { server in
                let port = server.port
                group.addTask {
                    var text = ""
                    try await RawConnection.open(port) { connection in
                        try await Self.begin(&connection)
                        begin.yield()
                        text = try await connection.rest()
                    }
                    return text
                }
                for await _ in begun { break }
            }
            #expect(try await group.next()?.hasSuffix("0\r\n\r\n") == true)
        }
    }

    @Test("a stream ends when its token is taken away; others stay")
    func revoked() async throws {
        try await AccountTests.withTokens("t1 alice\nt2 alice\n") { server, file in
            try await RawConnection.open(server.port) { one in
                try await RawConnection.open(server.port) { other in
                    try await Self.begin(&one, fields: ["Authorization: Bearer t1"])
                    try await Self.begin(&other, fields: ["Authorization: Bearer t2"])
                    try "t2 alice\n".write(to: file, atomically: true, encoding: .utf8)
                    let program = server.program
                    #expect(program.book.refresh(logger: program.logger))
                    program.hub.closeStreams { program.book.account(authorization: $0) == $1 }
                    #expect(try await one.until("never") == nil)
                    // It is counted off after the client has seen its end.
                    while program.vitals.reading.streams != 1 { await Task.yield() }
                }
            }
        }
    }

    /// Asks for a stream and waits until it is one.
    private static func begin(_ connection: inout RawConnection, fields: [String] = []) async throws {
        try await connection.send(ask + fields.map { $0 + "\r\n" }.joined() + "\r\n")
        let head = try await connection.until("\r\n\r\n")
        #expect(head?.hasPrefix("HTTP/1.1 200") == true && head?.contains("text/event-stream") == true)
        #expect(try await connection.until(": here\n\n") != nil)
    }
}
