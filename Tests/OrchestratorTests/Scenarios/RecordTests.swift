import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import UploadQueue
import Testing

@Suite struct SettledTests {
    private let board = RecordKey("board", "b-1")

    @Test("A record is settled when its changes are acknowledged, at once if nothing of it waits")
    func acknowledged() throws {
        try inVirtualTime { stage in
            let device = try stage.device(ModelServer(schema: Device.parsed, clock: stage.wall))
            try await stage.running(device) {
                #expect(try await device.engine.settled(self.board, timeout: .seconds(1)) == .decided)
                try await stage.pass(.seconds(5))
                try await device.addBoard("b-1")
                let before = stage.seconds
                #expect(try await device.engine.settled(self.board, timeout: .seconds(30)) == .decided)
                #expect(stage.seconds - before < 1)
            }
            try await device.end()
        }
    }

    @Test(
        "A record whose change was refused is set aside, and what waits behind it with it; another record is not waited for"
    )
    func setAside() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            server.ruling = { change in
                change.record.id == "b-1" ? .reject(Rejection(code: .forbidden, message: "no")) : .decide
            }
            let device = try stage.device(server)
            try await device.addBoard("b-1")
            try await device.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'L', 'b-1')")
            _ = await device.engine.syncNow()
            guard case .setAside(let keys) = try await device.engine.settled(self.board, timeout: .seconds(1)) else {
                Issue.record("it is not set aside")
                return
            }
            #expect(keys.count == 1)
            let behind = try await device.engine.settled(RecordKey("list", "l-1"), timeout: .seconds(1))
            #expect(behind != .decided && behind != .waiting)
            try await device.end()
        }
    }

    @Test("When the time is over it says that the record still waits")
    func timeout() throws {
        try inVirtualTime { stage in
            let device = try stage.device(ScriptedExchange())
            try await device.addBoard("b-1")
            let before = stage.seconds
            #expect(try await device.engine.settled(self.board, timeout: .seconds(9)) == .waiting)
            #expect(abs(stage.seconds - before - 9) < 0.01)
            try await device.end()
        }
    }
}

@Suite struct CycleRecordTests {
    @Test("OBS-08 the last hundred cycles are kept with cause, figures and end, across restarts, without any content")
    func ring() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            try await device.addBoard("b-1", "secret name")
            port.next(.slow(.milliseconds(70)))
            _ = await device.engine.syncNow()
            port.next(
                .fail(ExchangeFailure(kind: .temporary, status: 503, message: "secret name", reachedServer: true)))
            _ = await device.engine.syncNow()
            let records = try await device.engine.recentCycles()
            #expect(records.map(\.end) == ["temporary", "complete", "complete"])
            #expect(records.map(\.cause) == ["user", "user", "user"])
            #expect(records[0].message == "status 503")
            #expect(records[1].durationMilliseconds == 70)
            #expect(records[1].counts["acknowledged"] == 1)
            #expect(records[1].counts["sent"] == 1)
            let texts = try await device.store.cycles(limit: 100).map(\.summary)
            #expect(!texts.contains { $0.contains("secret") || $0.contains("b-1") })
            for _ in 0..<120 { _ = await device.engine.syncNow() }
            let kept = try await device.engine.recentCycles(limit: 1_000)
            #expect(kept.count == 100)
            #expect(kept.map(\.number) == (24...123).reversed().map(Int64.init))
            var settings = StoreConfiguration()
            settings.clock = stage.wall
            settings.executor = stage.executor.lane("the next start")
            let next = try Store(path: device.store.database.path, schema: Device.parsed, configuration: settings)
            #expect(try await next.recentCycles(limit: 1_000) == kept)
            try await next.close()
            try await device.end()
        }
    }

    @Test("Each verdict is counted in a cycle's record, those that decide nothing too")
    func verdicts() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            server.ruling = { change in
                switch change.record.id {
                case "b-2": .reject(Rejection(code: .forbidden, message: "no"))
                case "b-3": .retry(afterSeconds: 600)
                default: .decide
                }
            }
            let device = try stage.device(server)
            _ = await device.engine.syncNow()
            for number in 1...3 { try await device.addBoard("b-\(number)") }
            try await device.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'L', 'b-3')")
            _ = await device.engine.syncNow()
            let counts = try #require(try await device.engine.recentCycles().first?.counts)
            #expect(counts["acknowledged"] == 1)
            #expect(counts["refused"] == 1)
            #expect(counts["postponed"] == 2)
            #expect(counts["sent"] == 4)
            try await device.end()
        }
    }

    @Test("Each cause has its name: a start, a write, a hint, a period, a retry")
    func causes() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(5))
                await device.engine.trigger(.hint)
                try await stage.pass(.seconds(5))
                await device.engine.trigger(.foreground)
                try await stage.pass(.seconds(29))
                port.next(.fail(.unreachable))
                try await stage.pass(.seconds(40))
            }
            let causes = try await device.engine.recentCycles().reversed().map(\.cause)
            #expect(causes.prefix(6) == ["started", "localWrite", "hint", "foreground", "period", "retry"])
            try await device.end()
        }
    }
}
