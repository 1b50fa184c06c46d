import Ferry
import Foundation
import SyncCore
import Testing

@testable import boards

@Suite("sync, with a real server")
struct SyncTests {
    private let shop: Workshop

    init() throws { shop = try Workshop() }

    /// Runs with a server, which is stopped behind it.
    private func withServer(
        _ arguments: String..., body: (ServerProcess) async throws -> Void
    ) async throws {
        let server =
            switch arguments.count {
            case 0: try await ServerProcess(shop)
            case 1: try await ServerProcess(shop, arguments[0])
            default: try await ServerProcess(shop, arguments[0], arguments[1])
            }
        do {
            try await body(server)
        } catch {
            server.stop()
            throw error
        }
        #expect(server.stop() == 0)
    }

    @discardableResult
    private func sync(
        _ device: String, _ server: ServerProcess, expecting status: Int32 = 0,
        at line: SourceLocation = #_sourceLocation
    ) async throws -> FieldValue {
        let finished = try await shop.on(
            device, "--server", server.url, "sync", "--once", "--timeout", "300", "--json")
        #expect(finished.status == status, "\(finished.output)\(finished.complaint)", sourceLocation: line)
        return try finished.json
    }

    private func expectSame(_ devices: String..., at line: SourceLocation = #_sourceLocation) async throws {
        let first = try await shop.ok(devices[0], "show", "--json")
        #expect(!first.isEmpty, sourceLocation: line)
        for device in devices.dropFirst() {
            #expect(try await shop.ok(device, "show", "--json") == first, sourceLocation: line)
        }
    }

    @Test(
        "IDS-01, I9 a create under a parent that died meanwhile, on a server that makes its own ids, holds nothing up")
    func underDead() async throws {
        try await withServer("--server-ids") { server in
            try await shop.ok("A", "add", "board", "name=Garden", "--id", "b-1")
            try await shop.ok("A", "add", "list", "name=Sowing", "idBoard=b-1", "--id", "l-1")
            try await sync("A", server)
            try await sync("B", server)
            func id(_ line: String) throws -> String {
                guard case .string(let id)? = try FieldValue(json: line)["id"] else { return "" }
                return id
            }
            let list = try id(try await shop.ok("B", "show", "list"))
            try await shop.ok("B", "delete", "list", list)
            try await sync("B", server)
            try await shop.ok("A", "add", "card", "name=Peas", "idList=l-1", "--id", "c-1")
            try await shop.ok("A", "add", "board", "name=Meadow", "--id", "b-2")
            try await sync("A", server)
            #expect(try await shop.on("A", "show", "card").output == "")
            // The list lives again, and its card with it, each device's under the ids that it knows.
            let board = try #require(
                try await shop.on("B", "show", "board").lines.first { $0.contains("Garden") })
            try await shop.ok("B", "add", "list", "name=Sown", "idBoard=\(try id(board))", "--id", list)
            try await sync("B", server)
            try await sync("A", server)
            #expect(try await shop.ok("A", "show", "card", "c-1").contains(#""idList":"l-1""#))
            #expect(try await shop.on("B", "show", "card").lines.count == 1)
        }
    }

    @Test("IDS-01 with a server that makes its own ids a device keeps its own, and edits go both ways")
    func serverIDs() async throws {
        try await withServer("--server-ids") { server in
            try await shop.ok("A", "add", "board", "name=Garden", "--id", "b-1")
            try await shop.ok("A", "add", "list", "name=Sowing", "idBoard=b-1", "--id", "l-1")
            try await sync("A", server)
            try await shop.ok("A", "set", "list", "l-1", "name=Sown")
            try await shop.ok("A", "add", "card", "name=Peas", "idList=l-1", "--id", "c-1")
            try await sync("A", server)
            try await sync("B", server)
            let there = try FieldValue(json: try await shop.ok("B", "show", "card"))
            let id = try #require(there["id"].flatMap { if case .string(let id) = $0 { id } else { nil } })
            #expect(id != "c-1")
            try await shop.ok("B", "set", "card", id, "name=Beans")
            try await sync("B", server)
            try await sync("A", server)
            let card = try await shop.ok("A", "show", "card", "c-1")
            #expect(card.contains("Beans") && card.contains("\"idList\":\"l-1\""))
            try await shop.ok("A", "delete", "card", "c-1")
            try await sync("A", server)
            try await sync("B", server)
            #expect(try await shop.ok("B", "show", "card") == "")
            #expect(try await shop.ok("B", "show", "list").contains("Sown"))
        }
    }

    @Test("an imported board reaches a second device byte for byte")
    func twoDevices() async throws {
        let file = try shop.write(JSONText.text(SampleBoard.export()), to: "garden.json")
        try await withServer { server in
            try await shop.ok("A", "import", file)
            let sent = try await sync("A", server)
            #expect(sent["sent"] == 48)
            #expect(try await shop.ok("A", "status") == "synced")
            #expect(try await sync("B", server)["received"] == 48)
            try await expectSame("A", "B")
            #expect(try await sync("A", server)["requests"] == 1, "nothing to do costs one request")
        }
    }

    @Test("DAT-01 DAT-02 edits of one record on two devices: fields stand side by side, the later value wins")
    func conflicts() async throws {
        try await withServer { server in
            try await shop.ok("A", "add", "board", "--id", "b", "name=Start")
            try await sync("A", server)
            try await sync("B", server)
            try await shop.ok("A", "set", "board", "b", "name=A", "desc=from A")
            try await shop.ok("B", "set", "board", "b", "name=B", "closed=true")
            try await sync("A", server)
            try await sync("B", server)
            try await sync("A", server)
            try await expectSame("A", "B")
            let shown = try await FieldValue(json: shop.ok("A", "show", "board", "b"))
            #expect(shown["name"] == "B")
            #expect(shown["desc"] == "from A")
            #expect(shown["closed"] == true)
            let conflicts = try await shop.on("B", "conflicts", "--json").json
            #expect(conflicts.count >= 1)
            #expect(conflicts[0]?["mine"] == "B")
            #expect(conflicts[0]?["theirs"] == "A")
            let counts = try await shop.on("B", "conflicts", "--counts", "--json").json
            #expect(counts[0]?["field"] == "name" && counts[0]?["wonHere"] == 1)
            // The loser is written again, as somebody's newest word.
            guard case .int(let number)? = conflicts[0]?["number"] else {
                Issue.record("a conflict has a number")
                return
            }
            #expect(try await shop.ok("B", "restore", "\(number)") == "Written again: board b.")
            for device in ["B", "A"] { try await sync(device, server) }
            try await expectSame("A", "B")
            #expect(try await FieldValue(json: shop.ok("A", "show", "board", "b"))["name"] == "A")
            #expect(try await shop.on("B", "restore", "999999").status == 1)
            #expect(try await shop.on("B", "restore").status == 2)
        }
    }

    @Test("DAT-05 a deleted list comes back whole when somebody edited it later")
    func revival() async throws {
        let file = try shop.write(JSONText.text(SampleBoard.export()), to: "garden.json")
        try await withServer { server in
            try await shop.ok("A", "import", file)
            try await sync("A", server)
            try await sync("B", server)
            let before = try await shop.on("A", "show").lines.count
            let list = try await shop.on("A", "show", "list").lines[0]
            let id = try #require(FieldValue(json: list)["id"]?.string)
            try await shop.ok("A", "delete", "list", id)
            #expect(try await shop.on("A", "pending", "--json").json.count == 1, "one change, whatever is under it")
            #expect(try await shop.on("A", "show").lines.count < before)
            try await shop.ok("B", "set", "list", id, "name=Kept")
            for device in ["A", "B", "A"] { try await sync(device, server) }
            try await expectSame("A", "B")
            #expect(try await shop.on("A", "show").lines.count == before)
            // Deleted for good: gone on both, and on a device that comes new.
            try await shop.ok("A", "delete", "list", id)
            for device in ["A", "B", "C"] { try await sync(device, server) }
            try await expectSame("A", "B", "C")
        }
    }

    @Test("a set of labels grows on two devices at once, in one order")
    func labels() async throws {
        try await withServer { server in
            try await shop.ok("A", "add", "board", "--id", "b", "name=x")
            try await shop.ok("A", "add", "list", "--id", "l", "idBoard=b")
            try await shop.ok("A", "add", "card", "--id", "c", "idList=l", #"idLabels=["m"]"#)
            try await sync("A", server)
            try await sync("B", server)
            try await shop.ok("A", "set", "card", "c", #"idLabels=["z","m"]"#)
            try await shop.ok("B", "set", "card", "c", #"idLabels=["a"]"#)
            for device in ["A", "B", "A"] { try await sync(device, server) }
            try await expectSame("A", "B")
            try await shop.ok("A", "set", "card", "c", #"idLabels=["m","a"]"#)
            for device in ["A", "B", "C"] { try await sync(device, server) }
            try await expectSame("A", "B", "C")
        }
    }

    @Test("QUE-01 QUE-02 a refused create is set aside with its reason; retry sends it again, discard gives it up")
    func refusals() async throws {
        try await withServer { server in
            try await shop.ok("A", "add", "board", "--id", "taken", "name=first")
            try await sync("A", server)
            try await shop.ok("B", "add", "board", "--id", "taken", "name=second")
            try await shop.ok("B", "add", "list", "--id", "l", "idBoard=taken", "name=under it")
            try await shop.ok("B", "add", "board", "--id", "free", "name=third")
            let summary = try await sync("B", server, expecting: 3)
            #expect(summary["refused"] == 1)
            #expect(summary["setAside"] == 1)
            #expect(try await shop.ok("B", "status").hasPrefix("failed"))
            let failure = try #require(try await shop.on("B", "failures", "--json").json[0])
            #expect(failure["reason"]?["code"] == "idTaken")
            #expect(failure["entity"] == "board")
            #expect(failure["payload"]?["fields"]?["name"]?["new"] == "second")
            let change = try #require(failure["changeID"]?.string)

            let successor = try await shop.ok("B", "retry", change)
            #expect(successor != change, "a decided change is never sent again")
            try await sync("B", server, expecting: 3)
            let again = try #require(try await shop.on("B", "failures", "--json").json[0])
            #expect(again["changeID"] == .string(successor))
            try await shop.ok("B", "discard", successor)
            try await sync("B", server)
            try await sync("A", server)
            try await expectSame("A", "B")
        }
    }

    @Test("a server that is not there: status 3 within the time, and nothing is lost")
    func unreachable() async throws {
        try await shop.ok("A", "add", "board", "name=x")
        let started = ContinuousClock.now
        let finished = try await shop.on("A", "--server", "http://127.0.0.1:1", "sync", "--timeout", "0.5")
        #expect(finished.status == 3)
        #expect(ContinuousClock.now - started < .seconds(20))
        #expect(try await shop.on("A", "pending", "--json").json.count == 1)
        let status = try await shop.ok("A", "status")
        #expect(status.hasPrefix("queued") || status.hasPrefix("syncing"))
        try await withServer { server in try await sync("A", server) }
    }

    @Test("a token that is wrong: status 3; the right one goes on")
    func tokens() async throws {
        let tokens = try shop.write("secret-a ann\nsecret-b bob\n", to: "tokens")
        try await withServer("--tokens", tokens) { server in
            try await shop.ok("A", "add", "board", "name=x")
            let refused = try await shop.on("A", "--server", server.url, "--token", "wrong", "sync", "--timeout", "5")
            #expect(refused.status == 3)
            #expect(!refused.output.contains("wrong") && !refused.complaint.contains("wrong"))
            try await shop.ok("A", "--server", server.url, "--token", "secret-a", "sync", "--timeout", "300")
            try await shop.ok("B", "--server", server.url, "--token", "secret-b", "sync", "--timeout", "300")
            #expect(try await shop.ok("B", "show") == "", "another account sees nothing of it")
        }
    }

    @Test("killed at any moment and run again, sync ends in the same place")
    func killed() async throws {
        let file = try shop.write(JSONText.text(SampleBoard.export()), to: "garden.json")
        try await withServer { server in
            try await shop.ok("A", "replay", file)
            for milliseconds in stride(from: 0, through: 400, by: 40) {
                let process = try shop.process(
                    ["--data", shop.file("A"), "--server", server.url, "sync", "--timeout", "300"],
                    output: shop.file("killed.out"), complaint: shop.file("killed.err"))
                try process.run()
                // Moments spread by turns of the scheduler, not by a clock.
                for _ in 0..<(milliseconds * 300) { sched_yield() }
                Foundation.kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
            try await sync("A", server)
            try await sync("B", server)
            try await expectSame("A", "B")
        }
    }

    @Test("add works while another process syncs, and a watch sends what it adds")
    func watch() async throws {
        try await withServer { server in
            let process = try shop.process(
                ["--data", shop.file("A"), "--server", server.url, "sync", "--watch"], output: shop.file("watch.out"),
                complaint: shop.file("watch.err"))
            try process.run()
            for number in 1...10 { try await shop.ok("A", "add", "board", "--id", "b\(number)", "name=x") }
            var received: FieldValue?
            for _ in 0..<100 where received != 10 {
                try await sync("B", server)
                received = .int(Int64(try await shop.on("B", "show").lines.count))
            }
            #expect(received == 10)
            process.terminate()
            process.waitUntilExit()
            #expect([0, 3].contains(process.terminationStatus))
            try await sync("A", server)
            try await expectSame("A", "B")
        }
    }

    @Test("the server is killed and started again: nothing is lost, nothing is doubled")
    func serverKilled() async throws {
        let file = try shop.write(JSONText.text(SampleBoard.export()), to: "garden.json")
        try await shop.ok("A", "import", file)
        let first = try await ServerProcess(shop)
        try await sync("A", first)
        first.kill()
        try await withServer { server in
            try await sync("A", server)
            try await sync("B", server)
            try await expectSame("A", "B")
        }
    }

    @Test("an interrupted demonstration leaves nothing behind either", arguments: [SIGINT, SIGTERM])
    func interruptedDemo(signal: Int32) async throws {
        let scratch = shop.file("scratch")
        try FileManager.default.createDirectory(atPath: scratch, withIntermediateDirectories: false)
        let process = try shop.process(["demo"], output: shop.file("demo.out"), complaint: shop.file("demo.err"))
        process.environment?["TMPDIR"] = scratch
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        // Blocks until it has begun to tell.
        #expect(!pipe.fileHandleForReading.availableData.isEmpty)
        kill(process.processIdentifier, signal)
        // What it still says must not hold it up.
        while !pipe.fileHandleForReading.availableData.isEmpty {}
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 1)
        let said = try String(contentsOfFile: shop.file("demo.err"), encoding: .utf8)
        #expect(said.hasSuffix("Interrupted before its end.\n"), "\(said)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch).isEmpty)
    }

    @Test("NET-18 watching is the user's wish as well: an open breaker is not waited for")
    func watched() { #expect(Connection.configuration.isWatched) }

    @Test("the line of a server is a URL, with an address of IPv6 too")
    func address() {
        #expect(ServeCommand.address(host: "127.0.0.1", port: 80) == "http://127.0.0.1:80")
        #expect(ServeCommand.address(host: "::1", port: 8080) == "http://[::1]:8080")
    }

    @Test("the demonstration ends well and leaves nothing behind")
    func demo() async throws {
        let process = try shop.process(["demo"], output: shop.file("demo.out"), complaint: shop.file("demo.err"))
        let temporary = shop.file("tmp")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        process.environment?["TMPDIR"] = temporary
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(try String(contentsOfFile: shop.file("demo.out"), encoding: .utf8).contains("byte for byte"))
        #expect(try String(contentsOfFile: shop.file("demo.err"), encoding: .utf8) == "")
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary).isEmpty)
    }
}
