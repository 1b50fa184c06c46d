import SyncCore
import SyncTesting
import Testing

@Suite("Lost requests and answers, and accounts, in front of the model server", .timeLimit(.minutes(20)))
struct WayToTheServerTests {
    private static let schema: Schema = {
        do { return try Schema(ExchangeContract.entities) } catch { fatalError("\(error)") }
    }()

    private func request(_ number: Int, _ changes: [Change] = []) -> ExchangeRequest {
        ExchangeRequest(cycleID: "c-\(number)", deviceID: "d", changes: changes)
    }

    private func board(_ number: Int64) -> Change {
        Change(
            id: "key-\(number)", sequence: number, record: RecordKey("board", "b\(number)"), operation: .create,
            stamp: Stamp(milliseconds: 1_000, counter: 1), fields: ["name": FieldDelta(old: nil, new: "A")])
    }

    @Test("NET-01 a lost answer was done, a lost request was not; twice there is one effect")
    func lost() async throws {
        let server = ModelServer(schema: Self.schema, clock: ManualWallClock())
        let way = LossyExchange(server)
        way.next(.loseRequest, .loseAnswer, .duplicate)
        let lost = await #expect(throws: ExchangeFailure.self) { try await way.exchange(request(1, [board(1)])) }
        #expect(lost?.reachedServer == false)
        #expect(server.effects.isEmpty)
        let broken = await #expect(throws: ExchangeFailure.self) { try await way.exchange(request(2, [board(1)])) }
        #expect(broken?.isBrokenOff == true)
        #expect(server.effects.count == 1)
        let twice = try await way.exchange(request(3, [board(2)]))
        #expect(twice.results.map(\.isDuplicate) == [true], "the second answer comes back")
        #expect(try await way.exchange(request(4, [board(1)])).results.map(\.isDuplicate) == [true])
        #expect(server.effects.count == 2)
        #expect(way.requests.map(\.cycleID) == ["c-1", "c-2", "c-3", "c-4"])
    }

    @Test("What is held goes when it is let go; without an act of its own a request takes the usual one")
    func held() async throws {
        let server = ModelServer(schema: Self.schema, clock: ManualWallClock())
        let way = LossyExchange(server)
        way.next(.hold)
        async let answer = way.exchange(request(1, [board(1)]))
        await way.waitForHeld(1)
        #expect(server.effects.isEmpty)
        way.release()
        #expect(try await answer.results.count == 1)
        way.otherwise = .fail(.status(503))
        for number in 2...3 {
            let failure = await #expect(throws: ExchangeFailure.self) { try await way.exchange(request(number)) }
            #expect(failure?.status == 503)
        }
        way.otherwise = .pass
        #expect(try await way.exchange(request(4)).page.count == 1)
        await way.close()
        await #expect(throws: ExchangeFailure.closed) { try await way.exchange(request(5)) }
        #expect(try await server.exchange(request(6)).page.count == 1, "the server is others', too")
    }

    @Test("SEC-08 each account has its own records, and its token opens no other")
    func accounts() async throws {
        let accounts = ModelAccounts { ModelServer(schema: Self.schema, clock: ManualWallClock(), dataset: "of \($0)") }
        accounts.issue("t-ann", to: "ann")
        accounts.issue("t-bob", to: "bob")
        let ann = accounts.exchange(for: FixedCredentials(Token(value: "t-ann")))
        let bob = accounts.exchange(for: FixedCredentials(Token(value: "t-bob")))
        #expect(try await ann.exchange(request(1, [board(1)])).dataset == "of ann")
        #expect(try await bob.exchange(request(2)).page.count == 0)
        #expect(accounts.accounts == ["ann", "bob"])
        #expect(accounts.server(of: "ann").liveRecords.count == 1)
        accounts.issue("t-ann", to: "bob")
        #expect(try await ann.exchange(request(3)).dataset == "of bob")
        await ann.close()
        await #expect(throws: ExchangeFailure.closed) { try await ann.exchange(request(4)) }
        #expect(try await bob.exchange(request(5)).dataset == "of bob", "another device's way stays open")
    }

    @Test(
        "A token that is refused is renewed once; who has none, or no new one, hears 401; what credentials throw is no refusal"
    )
    func tokens() async throws {
        let accounts = ModelAccounts { _ in ModelServer(schema: Self.schema, clock: ManualWallClock()) }
        accounts.issue("new", to: "ann")
        let credentials = ScriptedCredentials("old", "new", "newer")
        let exchange = accounts.exchange(for: credentials)
        _ = try await exchange.exchange(request(1))
        #expect(credentials.refreshes == [Token(value: "old")])
        _ = try await exchange.exchange(request(2))
        #expect(credentials.refreshes.count == 1)
        accounts.revoke("new")
        let refused = await #expect(throws: ExchangeFailure.self) { try await exchange.exchange(request(3)) }
        #expect(refused?.kind == .authentication)
        #expect(credentials.refreshes.count == 2, "once, and no more")
        let none = accounts.exchange(for: FixedCredentials(nil))
        #expect(await #expect(throws: ExchangeFailure.self) { try await none.exchange(request(4)) }?.status == 401)
        credentials.failNext(StoreFailure(kind: .io, message: "the keychain is locked"))
        let locked = await #expect(throws: ExchangeFailure.self) { try await exchange.exchange(request(5)) }
        #expect(locked?.kind == .network)
        credentials.failNext(CancellationError())
        #expect(
            await #expect(throws: ExchangeFailure.self) { try await exchange.exchange(request(6)) }?.isCancelled == true
        )
    }
}
