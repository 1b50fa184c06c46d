import Storage
import SyncCore
import SyncTesting
import Testing

@testable import Orchestrator

/// DL-10: a full pass that lacks much waits for the app's word, and what becomes of the question.
struct ConfirmationTests {
    /// A device whose boards the server has lost, but for so many, and which waits for the app's word.
    private func waiting(_ stage: Stage, kept: Int = 0) async throws -> (ModelServer, ModelServer.Backup, Device) {
        let server = ModelServer(schema: Device.parsed, clock: stage.wall)
        let empty = server.backup()
        let device = try stage.device(server)
        var backup = empty
        for number in 0..<10 {
            if number == kept { backup = server.backup() }
            try await device.addBoard("b-\(number)")
            _ = try await device.engine.sync(for: .seconds(10))
        }
        server.restore(backup)
        #expect(await device.engine.syncNow().end == .awaitsConfirmation)
        #expect(try device.rows("board").count == 10)
        return (server, empty, device)
    }

    @Test("DL-10 what was missing comes again, from whoever has it: the question is over, and nothing goes")
    func comesAgain() throws {
        try inVirtualTime { stage in
            let (server, _, device) = try await waiting(stage)
            let other = try stage.device(server, seed: 2)
            for number in 0..<9 { try await other.addBoard("b-\(number)") }
            #expect(try await other.engine.sync(for: .seconds(10)).isInStep)
            let summary = try await device.engine.sync(for: .seconds(60))
            #expect(summary.isInStep)
            // One of ten is no more than goes without asking.
            #expect(summary.report.removed == 1)
            #expect(try device.rows("board") == other.rows("board"))
            #expect(try await !device.store.position().isInFullPass)
            try await other.end()
            try await device.end()
        }
    }

    @Test("DL-10 the app says yes: the pass is repeated, and what it lacks goes and is counted")
    func yes() throws {
        try inVirtualTime { stage in
            let (_, _, device) = try await waiting(stage, kept: 4)
            #expect(try await device.engine.confirmRemoval() == 6)
            let summary = try await device.engine.sync(for: .seconds(60))
            #expect(summary.isInStep)
            #expect(summary.report.removed == 6)
            #expect(try device.rows("board").count == 4)
            #expect(try await device.engine.confirmRemoval() == 0)
            try await device.end()
        }
    }

    @Test("DL-10 the app says yes after the server has everything again: nothing goes")
    func yesTooLate() throws {
        try inVirtualTime { stage in
            let (server, _, device) = try await waiting(stage)
            let other = try stage.device(server, seed: 2)
            for number in 0..<10 { try await other.addBoard("b-\(number)") }
            #expect(try await other.engine.sync(for: .seconds(10)).isInStep)
            #expect(try await device.engine.confirmRemoval() == 10)
            let summary = try await device.engine.sync(for: .seconds(60))
            #expect(summary.isInStep)
            #expect(summary.report.removed == 0)
            #expect(try device.rows("board").count == 10)
            try await other.end()
            try await device.end()
        }
    }

    @Test("DL-10 the app says yes, and meanwhile more is missing: the question stays, and is about that")
    func more() throws {
        try inVirtualTime { stage in
            let (server, empty, device) = try await waiting(stage, kept: 4)
            #expect(try await device.engine.confirmRemoval() == 6)
            server.restore(empty)
            #expect(try await !device.engine.sync(for: .seconds(60)).isInStep)
            #expect(try device.rows("board").count == 10)
            #expect(try await device.engine.confirmRemoval() == 10)
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            #expect(try device.rows("board") == [])
            try await device.end()
        }
    }

    @Test("DL-10 the app says yes while a cycle is under way: that one takes nothing, the next one repeats the pass")
    func duringACycle() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let empty = server.backup()
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            for number in 0..<10 { try await device.addBoard("b-\(number)") }
            #expect(try await device.engine.sync(for: .seconds(10)).isInStep)
            server.restore(empty)
            #expect(await device.engine.syncNow().end == .awaitsConfirmation)
            port.next(.slow(.seconds(20)))
            async let slow = device.engine.syncNow()
            try await stage.pass(.seconds(5))
            #expect(try await device.engine.confirmRemoval() == 10)
            #expect(await slow.end == .awaitsConfirmation)
            #expect(try device.rows("board").count == 10)
            port.forget()
            let report = await device.engine.syncNow()
            #expect(report.end == .complete)
            #expect(report.removed == 10)
            #expect(port.requests.contains { $0.request.fullPass })
            try await device.end()
        }
    }

    @Test("DL-10 the app's word where nothing waits says nothing, also to a pass that comes later")
    func nothingWaits() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let empty = server.backup()
            let device = try stage.device(server)
            for number in 0..<10 { try await device.addBoard("b-\(number)") }
            #expect(try await device.engine.sync(for: .seconds(10)).isInStep)
            #expect(try await device.engine.confirmRemoval() == 0)
            server.restore(empty)
            #expect(await device.engine.syncNow().end == .awaitsConfirmation)
            #expect(try device.rows("board").count == 10)
            try await device.end()
        }
    }
}
