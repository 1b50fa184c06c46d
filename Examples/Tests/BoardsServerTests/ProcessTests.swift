import Foundation
import Testing

@testable import BoardsServer

/// The server as a process: started, stopped, restored.
@Suite("the process", .timeLimit(.minutes(3))) struct ProcessTests {
    @Test("SIGTERM and SIGINT end it with status 0 and nothing more on stdout", arguments: [SIGTERM, SIGINT])
    func signals(signal: Int32) async throws {
        let server = try ServerProcess()
        #expect(try await server.client.send(.GET, "/health").status == 200)
        let (status, rest) = try server.stop(signal)
        #expect(status == 0 && rest.isEmpty)
    }

    @Test("a stop answers what was begun: the rest of a request that was half here when the signal came")
    func stopInTheMiddle() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let server = try ServerProcess("--database", folder.path("boards.sqlite"))
        let change = WholeServerTests.create(1, entity: "board", id: "b1", fields: #"{"name":{"new":"x"}}"#)
        let request = String.post(WholeServerTests.request(device: "d", changes: [change]))
        try await RawConnection.open(server.port) { connection in
            try await RawConnection.open(server.port) { idle in
                try await connection.send(String(request.prefix(request.count - 40)))
                // It is known to be under way once the server counts its bytes.
                while try await !server.client.send(.GET, "/metrics").text.contains("boards_held_request_bytes 2") {}
                server.signal(SIGTERM)
                // The idle one ends first, which tells that the stop has begun.
                #expect(try await idle.rest().isEmpty)
                try await connection.send(String(request.suffix(40)))
                let answer = try await connection.rest()
                #expect(answer.hasPrefix("HTTP/1.1 200") && answer.contains(#""verdict":"applied""#), "\(answer)")
            }
        }
        #expect(try server.stop().status == 0)
        let again = try ServerProcess("--database", folder.path("boards.sqlite"))
        #expect(try await again.client.send(.GET, "/1/boards/b1").status == 200)
        #expect(try again.stop().status == 0)
    }

    @Test(
        "a second server on the same file, also by another name; no tokens file; a taken port: one sentence, status 1")
    func refusals() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let server = try ServerProcess("--database", folder.path("boards.sqlite"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("other.sqlite"), withDestinationPath: folder.path("boards.sqlite"))
        for arguments in [
            ["--database", folder.path("boards.sqlite")], ["--database", folder.path("other.sqlite")],
            ["--tokens", folder.path("none")], ["--port", "\(server.port)"],
        ] {
            let port = arguments[0] == "--port" ? [] : ["--port", "0"]
            let all = ["serve", "--log", "warning"] + port + arguments
            let (status, output, errors) = try ServerProcess.run(all)
            #expect(status == 1 && output.isEmpty)
            #expect(errors.split(separator: "\n").count == 1 && errors.hasSuffix(".\n"), "\(errors)")
        }
        #expect(try server.stop().status == 0)
    }

    @Test(
        "DL-09 a backup is made while the server writes; whoever starts on it, or with --restored, begins a new epoch")
    func restore() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let database = folder.path("boards.sqlite")
        let server = try ServerProcess("--database", database)
        let client = server.client
        let writing = Task {
            var n = 0
            while !Task.isCancelled {
                n += 1
                let change = WholeServerTests.create(n, entity: "board", id: "b\(n)", fields: "{}")
                let reply = try await client.sync(WholeServerTests.request(device: "d", changes: [change]))
                #expect(reply.text.contains(#""verdict":"applied""#))
            }
            return n
        }
        while try await client.send(.GET, "/1/boards/b20").status != 200 {}
        let (status, _, errors) = try ServerProcess.run(
            ["backup", "--database", database, "--to", folder.path("copy.sqlite")])
        #expect(status == 0, "\(errors)")
        writing.cancel()
        let written = (try? await writing.value) ?? 0
        let before = try await client.sync(WholeServerTests.request(device: "reader", limit: 2_000))
        let epoch = try Epoch(before.bytes).epoch
        #expect(try server.stop().status == 0)

        // The copy is whole: what it holds is the beginning of what was written.
        let copy = try ServerProcess("--database", folder.path("copy.sqlite"))
        let page = try WholeServerTests.Page(
            try await copy.client.sync(WholeServerTests.request(device: "reader", limit: 2_000)).bytes)
        #expect(
            page.changedRecords.count >= 20
                && page.changedRecords.map(\.version) == Array(1...page.changedRecords.count))
        #expect(written == 0 || page.changedRecords.count <= written)
        #expect(try copy.stop().status == 0)

        // In the place of the newer one, which FILE.version knows; then once more because the operator says so.
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: database + suffix) }
        try FileManager.default.copyItem(atPath: folder.path("copy.sqlite"), toPath: database)
        var known = epoch
        for arguments in [["--database", database], ["--database", database, "--restored"]] {
            let restored = try ServerProcess(arguments)
            let sync = WholeServerTests.request(device: "d")
                .replacing(#""deviceID""#, with: #""epoch":"\#(known)","deviceID""#)
            let reply = try await restored.client.sync(sync)
            #expect(reply.status == 410 && reply.text.contains(#""code":"epochChanged""#), "\(reply.text)")
            known = try Epoch(reply.bytes).epoch
            #expect(try restored.stop().status == 0)
        }
    }

    private struct Epoch: Decodable {
        let epoch: String

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(Epoch.self, from: Data(bytes)) }
    }

    @Test("a changed tokens file counts within 5 s: a new token comes in, a lost one stays out")
    func tokens() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        try "old alice\n".write(toFile: folder.path("tokens"), atomically: true, encoding: .utf8)
        let server = try ServerProcess("--tokens", folder.path("tokens"))
        var old = server.client
        old.token = "old"
        var new = server.client
        new.token = "new"
        #expect(try await old.send(.GET, "/1/boards").status == 200)
        #expect(try await new.send(.GET, "/1/boards").status == 401)
        try "new alice\n".write(toFile: folder.path("tokens"), atomically: true, encoding: .utf8)
        let clock = ContinuousClock()
        let changed = clock.now
        while try await new.send(.GET, "/1/boards").status != 200, clock.now - changed < .seconds(20) {}
        #expect(clock.now - changed < .seconds(5))
        #expect(try await old.send(.GET, "/1/boards").status == 401)
        #expect(try server.stop().status == 0)
    }
}
