import Orchestrator
import Storage
import SyncCore
import SyncTesting
import UploadQueue
import Testing

@Suite struct ServersWordTests {
    @Test(
        "NET-16 Retry-After binds writes, hints, the link, the foreground and the user; then the queue drains",
        arguments: [429, 503])
    func retryAfter(status: Int) throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.next(.fail(.status(status, retryAfter: 100)))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(3))
                let asked = try #require(port.requests.last?.seconds)
                port.forget()
                for round in 0..<20 {
                    try await device.addBoard("x-\(round)")
                    for trigger in Scheduler.Trigger.allCases { await device.engine.trigger(trigger) }
                    let end = await device.engine.syncNow().end
                    guard case .notNow(let until, _) = end else {
                        Issue.record("a request went: \(end)")
                        return
                    }
                    #expect(until != nil)
                    try await stage.pass(.seconds(4))
                }
                #expect(port.requests.isEmpty)
                try await stage.pass(.seconds(60))
                #expect((port.requests.first?.seconds ?? 0) >= asked + 100)
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test("Seed 450: the page of an answer that lacks a verdict is asked for again: it may leave the record out")
    func missingVerdict() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.forget()
            port.next(.mute)
            try await device.addBoard("b-1")
            #expect(await device.engine.syncNow().acknowledged == 1)
            #expect(server.head == 1)
            #expect(port.requests.map(\.changes.count) == [1, 0, 1])
            // The second one, without changes, brings the record; the third says what became of the change.
            #expect(port.requests.map(\.request.lastSyncVersion) == [0, 0, 1])
            try await device.end()
        }
    }

    @Test("A server that leaves every verdict out is asked at our own pauses; then the queue drains")
    func alwaysMute() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            for number in 0..<3 { try await device.addBoard("b-\(number)") }
            port.forget()
            port.otherwise = .mute
            let report = try await device.engine.sync(for: .seconds(30)).report
            #expect(report.requests < 200)
            #expect(port.requests.contains { $0.changes.count == 3 })
            #expect(try await device.store.summary().hasWork)
            port.otherwise = .pass
            #expect(try await device.engine.sync(for: .seconds(30)).isInStep)
            try await device.end()
        }
    }

    @Test("NET-16 a pause asked for with a good answer binds the user's next wish; a pull under way ends its pages")
    func backoff() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall, pageLimit: 2)
            let other = try stage.device(server, seed: 2)
            for number in 0..<5 { try await other.addBoard("b-\(number)") }
            _ = try await other.engine.sync(for: .seconds(10))
            let port = Port(server, clock: stage.clock)
            port.next(.backoff(60))
            let device = try stage.device(port)
            let first = await device.engine.syncNow()
            #expect(first.received == 5)
            #expect(first.requests == 3)
            try await device.addBoard("mine")
            #expect(await device.engine.syncNow().requests == 0)
            try await stage.pass(.seconds(61))
            #expect(await device.engine.syncNow().acknowledged == 1)
            try await device.end()
            try await other.end()
        }
    }

    @Test("NET-16 a 413 with Retry-After sends nothing more in its cycle, not even the pull")
    func tooLargeWithPause() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            for number in 0..<4 { try await device.addBoard("b-\(number)") }
            port.forget()
            port.next(.fail(.status(413, retryAfter: 30)))
            _ = await device.engine.syncNow()
            _ = await device.engine.syncNow()
            #expect(port.requests.count == 1)
            try await stage.pass(.seconds(31))
            #expect(await device.engine.syncNow().end == .complete)
            try await device.end()
        }
    }

    @Test("QUE-15 a batch that was halved and then taken is a complete cycle, not a failed one")
    func tooLarge() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            for number in 0..<4 { try await device.addBoard("b-\(number)") }
            port.forget()
            port.next(.fail(.status(413)))
            let report = await device.engine.syncNow()
            #expect(report.end == .complete)
            #expect(report.acknowledged == 4)
            #expect(port.requests.map(\.changes.count) == [4, 2, 2])
            try await device.end()
        }
    }

    @Test(
        "SCH-08 a wall clock that jumps a year either way neither ends the server's pause nor prolongs it",
        arguments: [1, -1])
    func clockJump(direction: Int64) throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.next(.fail(.status(503, retryAfter: 100)))
            _ = await device.engine.syncNow()
            port.forget()
            _ = await device.engine.syncNow()
            stage.wall.advance(milliseconds: direction * 365 * 86_400_000)
            for _ in 0..<9 {
                _ = await device.engine.syncNow()
                try await stage.pass(.seconds(11))
            }
            #expect(port.requests.isEmpty)
            try await stage.pass(.seconds(2))
            #expect(await device.engine.syncNow().requests > 0)
            try await device.end()
        }
    }

    @Test("SCH-08 after a jump the first request carries no changes, and the last sync never goes back")
    func requestAfterJump() throws {
        try inVirtualTime { stage in
            let port = Port(
                ModelServer(schema: Device.parsed, clock: ManualWallClock(following: stage.clock)), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            let synced = try #require(await device.status.lastSyncedMilliseconds)
            stage.wall.advance(milliseconds: -365 * 86_400_000)
            try await device.addBoard("b-1")
            port.forget()
            let report = await device.engine.syncNow()
            #expect(report.end == .complete)
            #expect(port.requests.map(\.changes.count) == [0, 1])
            #expect(await device.status.lastSyncedMilliseconds == synced)
            try await device.end()
        }
    }

    @Test("DAT-04 no change goes before the server's time is known: at first, and after a jump until an answer came")
    func timeFirst() throws {
        try inVirtualTime { stage in
            let port = Port(
                ModelServer(schema: Device.parsed, clock: ManualWallClock(following: stage.clock)), clock: stage.clock)
            let device = try stage.device(port)
            try await device.addBoard("b-1")
            #expect(await device.engine.syncNow().end == .complete)
            #expect(port.requests.map(\.changes.count) == [0, 1])
            stage.wall.advance(milliseconds: 3_600_000)
            try await device.addBoard("b-2")
            port.forget()
            port.next(.fail(.timedOut))
            _ = await device.engine.syncNow()
            #expect(await device.engine.syncNow().end == .complete)
            #expect(port.requests.map(\.changes.count) == [0, 0, 1])
            try await device.end()
        }
    }

    @Test(
        "SEC-02 SEC-03 refused credentials freeze the queue: writes are taken, nothing is dropped, no hot loop; then all goes"
    )
    func credentials() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(401))
            try await stage.running(device) {
                for number in 0..<10 {
                    try await device.addBoard("b-\(number)")
                    try await stage.pass(.seconds(60))
                }
                #expect(await device.status.lastEnd == .needsCredentials)
                // One look each period and after each write, and not more.
                #expect(port.requests.count <= 3 * 10 + 2)
                #expect(try await device.store.summary().hasWork)
                port.otherwise = .pass
                try await device.engine.uploads.credentialsChanged()
                await device.engine.trigger(.user)
                try await stage.pass(.seconds(1))
                let left = try await device.store.summary()
                #expect(!left.hasWork && left.failed == 0)
            }
            try await device.end()
        }
    }
}

extension Device {
    /// The present status.
    var status: SyncStatus {
        get async {
            var statuses = await engine.statuses().makeAsyncIterator()
            return await statuses.next() ?? SyncStatus()
        }
    }
}
