import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import UploadQueue
import Testing

@Suite struct HistoryScenarioTests {
    private func model(_ stage: Stage) -> ModelServer { ModelServer(schema: Device.parsed, clock: stage.wall) }

    /// A device with ten boards, and their server, which was put back to when it had nothing.
    private func emptied(_ stage: Stage) async throws -> (ModelServer, Device) {
        let server = model(stage)
        let empty = server.backup()
        let device = try stage.device(server)
        for number in 0..<10 { try await device.addBoard("b-\(number)") }
        _ = try await device.engine.sync(for: .seconds(10))
        server.restore(empty)
        return (server, device)
    }

    @Test(
        "NET-22 another data set: the engine stops, keeps everything and says so; a later sync asks again and goes on")
    func otherDataset() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            try await device.addBoard("b-1")
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.addBoard("b-2")
            port.otherwise = .fail(.status(409, code: "otherDataset"))
            let before = try device.rows("board")
            for _ in 0..<3 { #expect(await device.engine.syncNow().end == .otherDataset) }
            #expect(try device.rows("board") == before)
            let kept = try await device.store.summary()
            #expect(kept.pending + kept.inFlight == 1)
            #expect(kept.failed == 0)
            port.otherwise = .pass
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            try await device.end()
        }
    }

    @Test("NET-22 another data set told in a good answer: nothing of it is applied, nothing counts as acknowledged")
    func otherDatasetInAnswer() throws {
        try inVirtualTime { stage in
            let mine = model(stage)
            let other = ModelServer(schema: Device.parsed, clock: stage.wall, dataset: "d-2", epoch: "e-1")
            let stranger = try stage.device(other, seed: 2)
            try await stranger.addBoard("x-1")
            _ = try await stranger.engine.sync(for: .seconds(10))
            let turnout = Turnout(mine)
            let device = try stage.device(turnout)
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.addBoard("b-1")
            turnout.set(other)
            #expect(await device.engine.syncNow().end == .otherDataset)
            #expect(try device.rows("board").count == 1)
            #expect(try await device.store.summary().hasWork)
            turnout.set(mine)
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            #expect(mine.effects.count == 1)
            try await device.end()
            try await stranger.end()
        }
    }

    @Test(
        "DL-11 DL-12 an expired checkpoint: a full pass takes away what is gone, keeps what is unsent, and revives nothing"
    )
    func expired() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let (a, b) = (try stage.device(server, seed: 1), try stage.device(server, seed: 2))
            for number in 0..<10 { try await a.addBoard("b-\(number)") }
            for device in [a, b] { _ = try await device.engine.sync(for: .seconds(10)) }
            try await a.write("DELETE FROM board WHERE id = 'b-0'")
            _ = try await a.engine.sync(for: .seconds(10))
            server.forgetTombstones()
            try await b.addBoard("mine")
            let events = await b.engine.events()
            let summary = try await b.engine.sync(for: .seconds(60))
            #expect(summary.isInStep)
            #expect(summary.report.removed == 1)
            #expect(try a.rows("board").count == 9)
            _ = try await a.engine.sync(for: .seconds(10))
            #expect(try a.rows("board") == b.rows("board"))
            #expect(try a.rows("board").count == 10)
            var iterator = events.makeAsyncIterator()
            #expect(await iterator.next() == .fullPassBegan)
            try await a.end()
            try await b.end()
        }
    }

    @Test(
        "DL-11 seed 25478: a process died before the first page, and what it had sent died elsewhere too long ago to be told",
        arguments: [false, true])
    func diedBeforeTheFirstPage(isRepeated: Bool) throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let port = Port(server, clock: stage.clock)
            let (a, b) = (try stage.device(port, seed: 1), try stage.device(server, seed: 2))
            for number in 0..<10 { try await a.addBoard("b-\(number)") }
            if isRepeated {
                // Seed 28178: the verdicts were lost, and come again.
                port.next(.pass, .lose, .fail(.timedOut))
                _ = await a.engine.syncNow()
            } else {
                #expect(try await a.engine.sync(for: .seconds(10)).isInStep)
                try await a.write("UPDATE sync_meta SET value = '0' WHERE key = 'checkpoint'")
            }
            #expect(server.effects.count == 10)
            #expect(try await b.engine.sync(for: .seconds(10)).isInStep)
            try await b.write("DELETE FROM board WHERE id = 'b-0'")
            #expect(try await b.engine.sync(for: .seconds(10)).isInStep)
            server.forgetTombstones()
            #expect(try await a.engine.sync(for: .seconds(600)).isInStep)
            #expect(try a.rows("board") == b.rows("board"))
            #expect(try a.rows("board").count == 9)
            try await a.end()
            try await b.end()
        }
    }

    @Test("DL-11 seed 73532: it was sent, pulled past and forgotten before its verdict came again")
    func diedBeforeItsVerdict() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let port = Port(server, clock: stage.clock)
            let (a, b) = (try stage.device(port, seed: 1), try stage.device(server, seed: 2))
            for number in 0..<10 { try await a.addBoard("b-\(number)") }
            port.next(.pass, .lose, .fail(.timedOut))
            _ = await a.engine.syncNow()
            #expect(server.effects.count == 10)
            #expect(try await b.engine.sync(for: .seconds(10)).isInStep)
            try await b.write("DELETE FROM board WHERE id = 'b-0'")
            #expect(try await b.engine.sync(for: .seconds(10)).isInStep)
            server.forgetTombstones()
            // The push fails once more, and the page comes without it.
            port.next(.fail(.timedOut))
            _ = await a.engine.syncNow()
            #expect(try await a.store.position().checkpoint == server.head)
            #expect(try a.rows("board").count == 10)
            #expect(try await a.engine.sync(for: .seconds(600)).isInStep)
            #expect(try a.rows("board") == b.rows("board"))
            #expect(try a.rows("board").count == 9)
            #expect(port.requests.contains { $0.request.fullPass })
            try await a.end()
            try await b.end()
        }
    }

    @Test("DL-11 the same where new changes go first, in a row of requests whose answers bring nothing but verdicts")
    func diedBeforeTheFirstPageOfMany() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let policy = UploadPolicy(limits: ClaimLimits(maxChanges: 5))
            let a = try stage.device(server.exchange, seed: 1, policy: policy)
            let b = try stage.device(server.exchange, seed: 2)
            for number in 0..<5 { try await a.addBoard("b-\(number)") }
            for device in [a, b] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            try await a.write("UPDATE sync_meta SET value = '0' WHERE key = 'checkpoint'")
            try await b.write("DELETE FROM board")
            #expect(try await b.engine.sync(for: .seconds(10)).isInStep)
            stage.wall.advance(milliseconds: 100 * 86_400_000)
            try server.service.prune()
            for number in 5..<15 { try await a.addBoard("b-\(number)") }
            // A process that has not seen the clock jump sends changes first.
            let engine = SyncEngine(
                store: a.store, exchange: server.exchange, policy: policy, wallClock: stage.wall, clock: stage.clock,
                randomness: SeededRandomness(seed: 3), ids: SeededIDs(seed: 3))
            // All that the server had is gone: the app has to say so.
            _ = try await engine.sync(for: .seconds(600))
            #expect(try await a.store.position().awaitsConfirmation)
            _ = try await a.store.endFullPass(confirmed: true)
            for engine in [engine, b.engine] { #expect(try await engine.sync(for: .seconds(600)).isInStep) }
            #expect(try a.rows("board") == b.rows("board"))
            #expect(try a.rows("board").count == 10)
            try await a.end()
            try await b.end()
            try server.end()
        }
    }

    @Test("DL-11 a first page of a server that has forgotten tombstones is taken as it is where nothing older is here")
    func firstPageOfAnOldServer() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let a = try stage.device(server, seed: 1)
            for number in 0..<10 { try await a.addBoard("b-\(number)") }
            #expect(try await a.engine.sync(for: .seconds(10)).isInStep)
            server.forgetTombstones()
            let port = Port(server, clock: stage.clock)
            let b = try stage.device(port, seed: 2)
            try await b.addBoard("mine")
            #expect(try await b.engine.sync(for: .seconds(10)).isInStep)
            #expect(try b.rows("board").count == 11)
            #expect(port.requests.allSatisfy { !$0.request.fullPass })
            try await a.end()
            try await b.end()
        }
    }

    @Test(
        "DL-09 a server restored from an older backup: what was acknowledged and is lost is journalled, the queue goes on"
    )
    func restored() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let device = try stage.device(server)
            for number in 0..<10 { try await device.addBoard("b-\(number)") }
            _ = try await device.engine.sync(for: .seconds(10))
            let backup = server.backup()
            try await device.addBoard("late")
            _ = try await device.engine.sync(for: .seconds(10))
            server.restore(backup)
            try await device.addBoard("unsent")
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            let lost = try await device.store.conflicts().filter { $0.kind == "lostByServer" }
            #expect(lost.map(\.record.id) == ["late"])
            #expect(try await device.store.restoreLost() == 1)
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            #expect(server.liveRecords.count == 12)
            try await device.end()
        }
    }

    @Test("DL-10 an emptied server removes nothing before the app says so, and unsent changes go meanwhile")
    func emptied() throws {
        try inVirtualTime { stage in
            let (_, device) = try await emptied(stage)
            try await device.addBoard("mine")
            let summary = try await device.engine.sync(for: .seconds(60))
            #expect(!summary.isInStep)
            #expect(try device.rows("board").count == 11)
            #expect(try await device.store.position().awaitsConfirmation)
            #expect(!summary.queue.hasWork)
            _ = try await device.store.endFullPass(confirmed: true)
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            #expect(try device.rows("board").count == 1)
            try await device.end()
        }
    }

    @Test("DL-10 seed 7376: while a full pass waits for the app's word tombstones are forgotten: it begins anew")
    func forgottenWhileItWaits() throws {
        try inVirtualTime { stage in
            let (server, device) = try await emptied(stage)
            let other = try stage.device(server, seed: 2)
            try await other.addBoard("kept")
            try await other.addBoard("late")
            _ = try await other.engine.sync(for: .seconds(10))
            #expect(await device.engine.syncNow().end == .awaitsConfirmation)
            #expect(try device.rows("board").count == 12)
            try await other.write("DELETE FROM board WHERE id = 'late'")
            _ = try await other.engine.sync(for: .seconds(10))
            server.forgetTombstones()
            #expect(await device.engine.syncNow().end == .awaitsConfirmation)
            _ = try await device.store.endFullPass(confirmed: true)
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            #expect(try device.rows("board") == other.rows("board"))
            #expect(try device.rows("board").count == 1)
            try await other.end()
            try await device.end()
        }
    }

    @Test(
        "DL-10 a full pass that stopped in its middle goes on, and begins anew where that was longer ago than tombstones are kept"
    )
    func stoppedInTheMiddle() throws {
        for months in [0, 3] {
            try inVirtualTime { stage in
                let server = ModelServer(schema: Device.parsed, clock: stage.wall, pageLimit: 4)
                let port = Port(server, clock: stage.clock)
                let (a, b) = (try stage.device(server, seed: 1), try stage.device(port, seed: 2))
                for number in 0..<10 { try await a.addBoard("b-\(number)") }
                for device in [a, b] { _ = try await device.engine.sync(for: .seconds(10)) }
                try await a.write("DELETE FROM board WHERE id = 'b-9'")
                _ = try await a.engine.sync(for: .seconds(10))
                server.forgetTombstones()
                // The checkpoint has expired; the pass takes its first page, and stops.
                port.next(.pass, .pass, .fail(.timedOut))
                _ = await b.engine.syncNow()
                let stopped = try await b.store.position()
                #expect(stopped.isInFullPass && stopped.checkpoint > 0)
                if months > 0 {
                    try await a.write("DELETE FROM board WHERE id = 'b-0'")
                } else {
                    try await a.addBoard("c-0")
                }
                _ = try await a.engine.sync(for: .seconds(10))
                stage.wall.advance(milliseconds: Int64(months) * 30 * 86_400_000)
                server.forgetTombstones()
                port.forget()
                #expect(try await b.engine.sync(for: .seconds(60)).isInStep)
                #expect(try a.rows("board") == b.rows("board"))
                let isBegunAnew = port.requests.contains { $0.request.lastSyncVersion == 0 }
                #expect(isBegunAnew == (months > 0))
                try await a.end()
                try await b.end()
            }
        }
    }

    @Test(
        "DL-09 a 410 of the same epoch inside a full pass: the pass begins anew, and is not asked to go on from there for ever"
    )
    func unknownPlaceInsideAPass() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall, pageLimit: 4)
            let port = Port(server, clock: stage.clock)
            let (a, b) = (try stage.device(server, seed: 1), try stage.device(port, seed: 2))
            for number in 0..<10 { try await a.addBoard("b-\(number)") }
            for device in [a, b] { _ = try await device.engine.sync(for: .seconds(10)) }
            let epoch = try #require(try await b.store.position().epoch)
            try await a.write("DELETE FROM board WHERE id = 'b-9'")
            _ = try await a.engine.sync(for: .seconds(10))
            server.forgetTombstones()
            // The checkpoint has expired; behind the pass's first page the server knows no such place any more.
            let forgotten = ExchangeFailure(
                kind: .history, status: 410, code: "epochChanged", message: "no such place", reachedServer: true,
                epoch: epoch)
            port.next(.pass, .pass, .fail(forgotten))
            #expect(try await b.engine.sync(for: .seconds(60)).isInStep)
            let asked = port.requests.map(\.request.lastSyncVersion)
            #expect(asked.filter { $0 == 0 }.count == 3)
            #expect(try a.rows("board") == b.rows("board"))
            try await a.end()
            try await b.end()
        }
    }

    @Test("DL-13 a record that left the account goes without a delete, once what was sent of it is decided")
    func gone() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let device = try stage.device(server)
            for number in 0..<3 { try await device.addBoard("b-\(number)") }
            _ = try await device.engine.sync(for: .seconds(10))
            try await device.write("UPDATE board SET name = 'unsent' WHERE id = 'b-1'")
            let leaving = ScriptedExchange(
                [
                    .answer { request in
                        let gone = ["b-0", "b-1"].enumerated().map {
                            ServerRecord(key: RecordKey("board", $1), version: Int64(10 + $0), presence: .gone)
                        }
                        return ExchangeAnswer(
                            dataset: "d-1", epoch: "e-1", currentSyncVersion: 11,
                            results: request.changes.map {
                                ChangeResult(changeID: $0.id, verdict: .retry(afterSeconds: 1))
                            },
                            page: ArrayPage(gone))
                    }
                ],
                otherwise: .answer { request in
                    ExchangeAnswer(
                        dataset: "d-1", epoch: "e-1", currentSyncVersion: 11,
                        results: request.changes.map {
                            let refusal = Rejection(code: .forbidden, message: "not yours any more")
                            return ChangeResult(changeID: $0.id, verdict: .rejected(refusal))
                        },
                        page: ArrayPage([]))
                })
            let engine = SyncEngine(
                store: device.store, exchange: leaving, wallClock: stage.wall, clock: stage.clock,
                randomness: SeededRandomness(seed: 3), ids: SeededIDs(seed: 3))
            #expect(await engine.syncNow().received == 1)
            #expect(try device.rows("board").count == 2)
            _ = try await engine.sync(for: .seconds(10))
            #expect(try device.rows("board").count == 1)
            let failures = try await device.store.failures()
            #expect(failures.map(\.reason.code) == ["forbidden"])
            let queue = try await device.store.summary()
            #expect(queue.pending == 0 && queue.failed == 1)
            try await device.end()
        }
    }

    @Test("OBS-09 contents that differ at the same checkpoint: an event, a durable row, and a full pass that mends it")
    func divergence() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            for number in 0..<10 { try await device.addBoard("b-\(number)") }
            _ = try await device.engine.sync(for: .seconds(10))
            // A row is lost in a way that no engine should allow.
            try await device.store.write { db in
                try db.execute(sql: "UPDATE sync_clock SET applying = 1")
                try db.execute(sql: "DELETE FROM board WHERE id = 'b-3'")
                try db.execute(sql: "DELETE FROM sync_record WHERE id = 'b-3'")
                try db.execute(sql: "UPDATE sync_clock SET applying = 0")
            }
            #expect(await device.engine.syncNow().end == .complete)
            #expect(try device.rows("board").count == 9)
            let events = await device.engine.events()
            stage.wall.advance(milliseconds: 25 * 3_600_000)
            _ = await device.engine.syncNow()
            var seen: [SyncEvent] = []
            for await event in events {
                seen.append(event)
                if case .cycleEnded = event { break }
            }
            #expect(seen.prefix(2) == [.diverged, .fullPassBegan])
            #expect(try device.rows("board").count == 10)
            #expect(try await device.store.events().contains { $0.kind == "diverged" })
            // In step again: nothing of it comes back with the next comparison.
            port.forget()
            await device.engine.compareContents()
            #expect(await device.engine.syncNow().end == .complete)
            #expect(port.requests.map(\.request.wantsChecksum) == [true])
            try await device.end()
        }
    }

    @Test("OBS-09 two devices of the real server agree with it after creates, edits, moves and deletes of parents")
    func realChecksum() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let (a, b) = (try stage.device(server.exchange, seed: 1), try stage.device(server.exchange, seed: 2))
            for number in 0..<3 {
                try await a.addBoard("b-\(number)")
                try await a.write("INSERT INTO list (id, name, idBoard) VALUES ('l-\(number)', 'L', 'b-\(number)')")
                try await a.write("INSERT INTO card (id, name, idList) VALUES ('c-\(number)', 'C', 'l-\(number)')")
            }
            for device in [a, b] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            try await a.write("UPDATE card SET name = 'D' WHERE id = 'c-0'")
            try await b.write("UPDATE list SET idBoard = 'b-0' WHERE id = 'l-1'")
            try await b.write("DELETE FROM board WHERE id = 'b-2'")
            for device in [a, b, a, b] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            for device in [a, b] {
                let events = await device.engine.events()
                await device.engine.compareContents()
                _ = await device.engine.syncNow()
                var iterator = events.makeAsyncIterator()
                guard case .cycleEnded(let report)? = await iterator.next() else {
                    Issue.record("a full pass was made")
                    continue
                }
                #expect(report.requests == 1)
            }
            try await a.end()
            try await b.end()
            try server.end()
        }
    }

    @Test("DL-17 a slow push that times out never keeps the pull away, in the same cycle and in the next ones")
    func slowPush() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            let other = try stage.device(server, seed: 2)
            try await other.addBoard("theirs")
            _ = try await other.engine.sync(for: .seconds(10))
            try await device.addBoard("mine")
            port.next(.hang(.seconds(120)))
            let report = await device.engine.syncNow()
            #expect(report.received == 1)
            #expect(report.end == .exchange(.timedOut))
            #expect(try device.rows("board").count == 2)
            try await other.addBoard("more")
            _ = try await other.engine.sync(for: .seconds(10))
            // The push backs off now; the pull goes without it.
            let next = await device.engine.runOnce(deadline: .seconds(10))
            #expect(next.received == 1 && next.sent == 0)
            try await device.end()
            try await other.end()
        }
    }
}

/// Leads to one server or another.
private final class Turnout: Exchange, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    private var way: any Exchange
    init(_ way: any Exchange) { self.way = way }
    func set(_ way: any Exchange) { self.way = way }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        var request = request
        // A deployment that does not look at the data set, and says its own.
        let asked = request.dataset
        if let other = way as? ModelServer, other.epoch == request.epoch, asked != nil { request.dataset = nil }
        return try await way.exchange(request)
    }
    func close() async {}
}
