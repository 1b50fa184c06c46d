import Orchestrator
import Storage
import SyncCore
import SyncTesting
import UploadQueue
import Testing

@Suite struct ScopeScenarioTests {
    private let one = RecordKey("board", "b-1")
    private let two = RecordKey("board", "b-2")

    /// Three boards with a list and a card each on the server.
    private func fill(_ device: Device) async throws {
        for number in 1...3 {
            try await device.addBoard("b-\(number)")
            try await device.write("INSERT INTO list (id, name, idBoard) VALUES ('l-\(number)', 'L', 'b-\(number)')")
            try await device.write("INSERT INTO card (id, name, idList) VALUES ('c-\(number)', 'C', 'l-\(number)')")
        }
        _ = try await device.engine.sync(for: .seconds(10))
    }

    private func ids(_ device: Device) throws -> [String] {
        try ["board", "list", "card"].flatMap { try device.rows($0) }
            .compactMap {
                $0.split(separator: " ").first { $0.hasPrefix("id=") }.map { $0.dropFirst(3).filter { $0 != "\"" } }
            }
            .sorted()
    }

    @Test("A root of an entity that is not declared is refused, with what to write instead; nothing is asked for")
    func undeclared() throws {
        try inVirtualTime { stage in
            let device = try stage.device(ModelServer(schema: Device.parsed, clock: stage.wall))
            do throws(StoreFailure) {
                try await device.engine.setScopes([one, RecordKey("boards", "b-2")])
                Issue.record("it was taken")
            } catch {
                #expect(error.kind == .invalid)
                #expect(error.message.contains("“boards”") && error.message.contains("board, card, list"))
            }
            #expect(try await device.engine.scopes() == nil)
            try await device.engine.setScopes([one])
            try await device.end()
        }
    }

    @Test("DL-21 a root that is added is caught up from 0 with its own checkpoint, the others are not asked again")
    func added() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            let port = Port(server.exchange, clock: stage.clock)
            let device = try stage.device(port, seed: 2)
            try await device.engine.setScopes([one])
            let first = try await device.engine.sync(for: .seconds(10))
            #expect(first.report.received == 3)
            #expect(try ids(device) == ["b-1", "c-1", "l-1"])
            let reached = try #require(try await device.store.position().scopes?["board:b-1"])
            #expect(reached > 0)
            port.forget()
            try await device.engine.setScopes([one, two])
            let second = try await device.engine.sync(for: .seconds(10))
            #expect(port.requests.first?.request.scopes == ["board:b-1": reached, "board:b-2": 0])
            #expect(second.report.received == 3)
            #expect(try ids(device) == ["b-1", "b-2", "c-1", "c-2", "l-1", "l-2"])
            try await device.engine.setScopes(nil)
            _ = try await device.engine.sync(for: .seconds(10))
            #expect(try ids(device) == ids(writer))
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }

    @Test(
        "DL-21 DL-13 a root that is dropped leaves this device only; what is unsent of it stays, is sent, and goes then"
    )
    func dropped() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            let device = try stage.device(server.exchange, seed: 2)
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.write("UPDATE card SET name = 'unsent' WHERE id = 'c-2'")
            // From everything to two roots, the third goes at once; the second keeps the way to what is unsent.
            try await device.engine.setScopes([one])
            #expect(try ids(device) == ["b-1", "b-2", "c-1", "c-2", "l-1", "l-2"])
            #expect(try await device.store.summary().pending == 1)
            let summary = try await device.engine.sync(for: .seconds(10))
            #expect(summary.report.acknowledged == 1)
            #expect(try ids(device) == ["b-1", "c-1", "l-1"])
            #expect(summary.queue.failed == 0 && !summary.queue.hasWork)
            _ = try await writer.engine.sync(for: .seconds(10))
            #expect(try ids(writer).count == 9)
            #expect(try writer.rows("card").contains { $0.contains("unsent") })
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }

    @Test(
        "DL-13 a list that is moved to a root that is not asked for leaves with its cards; moved back it comes with them"
    )
    func movedOut() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            let device = try stage.device(server.exchange, seed: 2)
            try await device.engine.setScopes([one])
            _ = try await device.engine.sync(for: .seconds(10))
            try await writer.write("UPDATE list SET idBoard = 'b-2' WHERE id = 'l-1'")
            for each in [writer, device] { _ = try await each.engine.sync(for: .seconds(10)) }
            #expect(try ids(device) == ["b-1"])
            #expect(try await device.store.summary().hasWork == false)
            try await writer.write("UPDATE list SET idBoard = 'b-1' WHERE id = 'l-1'")
            for each in [writer, device] { _ = try await each.engine.sync(for: .seconds(10)) }
            #expect(try ids(device) == ["b-1", "c-1", "l-1"])
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }

    @Test("Seed 101933: what was made under a list that left unheard goes with the pass that waited for a word")
    func madeUnderWhatLeft() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            for number in 0..<10 {
                try await writer.write("INSERT INTO card (id, name, idList) VALUES ('c-3\(number)', 'C', 'l-3')")
            }
            _ = try await writer.engine.sync(for: .seconds(10))
            let port = Port(server.exchange, clock: stage.clock)
            let device = try stage.device(port, seed: 2)
            try await device.engine.setScopes([one, RecordKey("board", "b-3")])
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.write("INSERT INTO card (id, name, idList) VALUES ('c-new', 'Mine', 'l-1')")
            try await writer.write("UPDATE list SET idBoard = 'b-2' WHERE id IN ('l-1', 'l-3')")
            _ = try await writer.engine.sync(for: .seconds(10))
            port.next(
                .fail(
                    ExchangeFailure(
                        kind: .history, status: 410, code: "checkpointExpired", message: "too long ago",
                        reachedServer: true)))
            #expect(await device.engine.syncNow().end == .awaitsConfirmation)
            try await writer.write("UPDATE list SET idBoard = 'b-3' WHERE id = 'l-3'")
            _ = try await writer.engine.sync(for: .seconds(10))
            #expect(await device.engine.syncNow().end == .complete)
            #expect(try await device.store.position().held == 0)
            #expect(try ids(device).filter { !$0.hasPrefix("c-3") } == ["b-1", "b-3", "l-3"])
            _ = try await writer.engine.sync(for: .seconds(10))
            #expect(try ids(writer).contains("c-new"))
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }

    @Test(
        "DL-21 a root that comes back while it waits for an unsent change has lost what was moved out of it meanwhile")
    func cameBack() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            let device = try stage.device(server.exchange, seed: 2)
            try await device.engine.setScopes([one, two])
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.write("UPDATE card SET name = 'unsent' WHERE id = 'c-2'")
            try await device.engine.setScopes([one])
            try await writer.write("UPDATE list SET idBoard = 'b-3' WHERE id = 'l-2'")
            try await writer.write("INSERT INTO list (id, name, idBoard) VALUES ('l-new', 'L', 'b-2')")
            _ = try await writer.engine.sync(for: .seconds(10))
            try await device.engine.setScopes([one, two])
            let summary = try await device.engine.sync(for: .seconds(10))
            #expect(summary.report.acknowledged == 1)
            #expect(try ids(device) == ["b-1", "b-2", "c-1", "l-1", "l-new"])
            #expect(try await device.store.position().held == 0)
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }

    @Test("DL-21 what leaves a root that comes back between its two answers is told")
    func leftBetweenTheAnswers() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            let port = Port(server.exchange, clock: stage.clock)
            let device = try stage.device(port, seed: 2)
            try await device.engine.setScopes([one, two])
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.write("UPDATE card SET name = 'unsent' WHERE id = 'c-2'")
            try await device.engine.setScopes([one])
            try await device.engine.setScopes([one, two])
            port.next(.pass)
            port.otherwise = .fail(.timedOut)
            _ = await device.engine.syncNow()
            #expect(try await device.store.summary().hasWork == false)
            try await writer.write("UPDATE list SET idBoard = 'b-3' WHERE id = 'l-2'")
            _ = try await writer.engine.sync(for: .seconds(10))
            port.otherwise = .pass
            try await stage.pass(.seconds(120))
            _ = try await device.engine.sync(for: .seconds(10))
            #expect(try ids(device) == ["b-1", "b-2", "c-1", "l-1"])
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }

    @Test("A page that is on its way for other roots is dropped, and the next cycle asks for the right ones")
    func changedMeanwhile() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let writer = try stage.device(server.exchange, seed: 1)
            try await fill(writer)
            let port = Port(server.exchange, clock: stage.clock)
            let device = try stage.device(port, seed: 2)
            try await device.engine.setScopes([one])
            port.next(.slow(.seconds(5)))
            async let report = device.engine.syncNow()
            try await stage.pass(.seconds(1))
            try await device.engine.setScopes([two])
            _ = await report
            _ = try await device.engine.sync(for: .seconds(10))
            #expect(try ids(device) == ["b-2", "c-2", "l-2"])
            for each in [writer, device] { try await each.end() }
            try server.end()
        }
    }
}
