import SyncCore
import SyncTesting
import Testing

@Suite("The fakes of what is asked for: senders, fetchers, gates, credentials, ids, hints", .timeLimit(.minutes(20)))
struct AskedFakesTests {
    private func board(_ number: Int64) -> Change {
        Change(
            id: "key-\(number)", sequence: number, record: RecordKey("board", "b\(number)"), operation: .create,
            stamp: Stamp(milliseconds: 1_000, counter: 1), fields: [:])
    }

    @Test("A sender says the script's verdicts, its acts first, counts versions, and keeps what arrived")
    func sender() async throws {
        let sender = ScriptedSender { change, number in number == 3 ? .verdict(.retry(afterSeconds: 7)) : .take }
        sender.next(.verdict(.blocked(by: "other")), .loseAnswer)
        #expect(try await sender.send([board(1)], deviceID: "d").map(\.verdict) == [.blocked(by: "other")])
        await #expect(throws: ExchangeFailure.self) { try await sender.send([board(2)], deviceID: "d") }
        #expect(sender.taken == ["key-2"], "done, and nobody heard of it")
        let results = try await sender.send([board(3), board(4)], deviceID: "e")
        #expect(
            results.map(\.verdict) == [
                .retry(afterSeconds: 7), .applied(version: 2, overwrote: [:], serverID: nil),
            ])
        #expect(sender.arrivals.map(\.change.id) == ["key-1", "key-2", "key-3", "key-4"])
        #expect(sender.arrivals.map(\.deviceID) == ["d", "d", "e", "e"])
        sender.nextProbes(.fail(.status(503)), .loseAnswer)
        for _ in 0..<2 { await #expect(throws: ExchangeFailure.self) { try await sender.probe() } }
        try await sender.probe()
        #expect(sender.probes == 3)
    }

    @Test("Who waits for what arrives at a sender, or is held there, is told")
    func waiting() async throws {
        let sender = ScriptedSender()
        sender.next(.take, .hold)
        async let results = sender.send([board(1), board(2)], deviceID: "d")
        await sender.waitForArrivals(2)
        await sender.waitForHeld(1)
        #expect(sender.taken == ["key-1"])
        sender.release()
        #expect(try await results.count == 2)
        await sender.waitForArrivals(1)
    }

    @Test("A fetcher does what is next, then the usual, and keeps what was asked")
    func fetcher() async throws {
        let fetcher = ScriptedFetcher([.succeed], otherwise: .fail(.status(500)))
        let wish = DownloadRequest(scope: "board:a", priority: 1)
        try await fetcher.fetch(wish)
        await #expect(throws: ExchangeFailure.self) { try await fetcher.fetch(wish) }
        fetcher.next(.hold)
        async let held: Void = fetcher.fetch(wish)
        await fetcher.waitForHeld(1)
        fetcher.release()
        try await held
        #expect(fetcher.requests == [wish, wish, wish])
    }

    @Test("A gate is switched for everybody, or past the user, and keeps who asked")
    func gate() async {
        let closed = GateAnswer.closed(untilMilliseconds: 5, cause: "no")
        let gate = GateSwitch()
        #expect(await gate.mayGo(.routine) == .open)
        gate.setForRoutine(closed)
        #expect(await gate.mayGo(.routine) == closed)
        #expect(await gate.mayGo(.user) == .open)
        gate.set(closed)
        #expect(await gate.mayGo(.user) == closed)
        #expect(gate.asked == [.routine, .routine, .user, .user])
        #expect(await GateSwitch(closed).mayGo(.user) == closed)
    }

    @Test("Credentials go on to the next token once it is asked for, hold a refresh, and fail once")
    func credentials() async throws {
        let credentials = ScriptedCredentials("a", "b", account: "ann")
        let (a, b) = (Token(value: "a", account: "ann"), Token(value: "b", account: "ann"))
        #expect(try await credentials.token() == a)
        credentials.holdRefreshes()
        async let new = credentials.refresh(a)
        await credentials.waitForHeld(1)
        #expect(try await credentials.token() == a, "not yet")
        credentials.release()
        #expect(try await new == b)
        #expect(try await credentials.refresh(a) == b, "it costs no other")
        credentials.failNext(StoreFailure(kind: .io, message: "locked"))
        await #expect(throws: StoreFailure.self) { try await credentials.token() }
        #expect(try await credentials.refresh(b) == nil, "none is left")
        #expect(try await credentials.token() == nil)
        #expect(credentials.tokenCount == 4)
        #expect(credentials.refreshes == [a, a, b])
    }

    @Test("A map of ids counts looks, and fails as long as it is told to")
    func ids() throws {
        let ids = InMemoryIDs()
        #expect(try !ids.hasServerIDs())
        ids.put(RecordKey("board", "b"), "S")
        #expect(try ids.hasServerIDs())
        let failure = StoreFailure(kind: .io, message: "the disk is gone")
        ids.fail(failure)
        #expect(throws: failure) { try ids.serverIDs(of: [RecordKey("board", "b")]) }
        #expect(throws: failure) { try ids.localIDs(of: []) }
        #expect(throws: failure) { try ids.hasServerIDs() }
        ids.fail(nil)
        #expect(try ids.serverIDs(of: [RecordKey("board", "b")]) == [RecordKey("board", "b"): "S"])
        #expect(ids.lookCount == 3)
    }

    @Test("Hints reach everybody who listens; a refusal is for one call")
    func hints() async throws {
        let hints = ScriptedHints()
        hints.refuseNext()
        await #expect(throws: ExchangeFailure.unreachable) { try await hints.listen(after: 1) { _ in } }
        let (heard, ear) = AsyncStream.makeStream(of: HintEvent.self)
        var events = heard.makeAsyncIterator()
        async let first: Void = hints.listen(after: nil) { ear.yield($0) }
        async let second: Void = hints.listen(after: 3) { ear.yield($0) }
        for _ in 0..<2 { #expect(await events.next() == .opened) }
        #expect(hints.listenerCount == 2)
        hints.say(Hint(currentSyncVersion: 4))
        for _ in 0..<2 { #expect(await events.next() == .hint(Hint(currentSyncVersion: 4))) }
        hints.end()
        _ = try await (first, second)
        #expect(hints.listenerCount == 0)
        #expect(hints.versions.compactMap { $0 }.sorted() == [1, 3])
        #expect(hints.versions.count == 3)
    }
}
