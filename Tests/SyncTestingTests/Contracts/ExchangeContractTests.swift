import SyncCore
import SyncTesting
import Testing

@Suite("The exchanges of the package keep the contract", .timeLimit(.minutes(20)))
struct ExchangeContractTests {
    private static func server() throws -> ModelServer {
        ModelServer(schema: try Schema(ExchangeContract.entities), clock: ManualWallClock())
    }

    /// What stands in front of a way on which everything can happen.
    private static func subject(
        over server: any Exchange, _ front: (LossyExchange) throws -> any Exchange
    ) rethrows -> ExchangeSubject {
        let way = LossyExchange(server)
        return ExchangeSubject(
            exchange: try front(way), sent: { way.requests.count }, suffer: { way.next($0.act) },
            waitForHeld: { await way.waitForHeld(1) })
    }

    @Test("the model server", arguments: ExchangeContract.rules.indices)
    func model(rule: Int) async throws {
        try await ExchangeContract.rules[rule].check(ExchangeSubject(exchange: try Self.server(), closes: false))
    }

    @Test("one account of several", arguments: ExchangeContract.rules.indices)
    func account(rule: Int) async throws {
        let schema = try Schema(ExchangeContract.entities)
        let accounts = ModelAccounts { ModelServer(schema: schema, clock: ManualWallClock(), dataset: $0) }
        accounts.issue("t-1", to: "ann")
        let exchange = accounts.exchange(for: FixedCredentials(Token(value: "t-1")))
        try await ExchangeContract.rules[rule].check(ExchangeSubject(exchange: exchange))
    }

    @Test("a way on which requests and answers get lost", arguments: ExchangeContract.rules.indices)
    func lossy(rule: Int) async throws {
        try await ExchangeContract.rules[rule].check(Self.subject(over: try Self.server()) { $0 })
    }

    @Test("a connection that is switched on", arguments: ExchangeContract.rules.indices)
    func connectivity(rule: Int) async throws {
        try await ExchangeContract.rules[rule].check(
            Self.subject(over: try Self.server()) { ConnectivitySwitch($0) })
    }

    @Test("a script", arguments: ExchangeContract.rules.indices)
    func script(rule: Int) async throws {
        let server = try Self.server()
        let script = ScriptedExchange(
            otherwise: .answer { request throws(ExchangeFailure) in try server.answer(request) })
        try await ExchangeContract.rules[rule].check(
            ExchangeSubject(exchange: script, sent: { script.requests.count }))
    }

    @Test("no rule passes whatever an exchange does")
    func brokenExchanges() async throws {
        let found = await broken(ExchangeContract.rules, by: Broken.Bug.allCases) { bug in
            var subject = Self.subject(over: try Self.server()) { Broken(inner: $0, bug: bug) }
            // As one that was sent when it was made ready.
            if bug == .sendsToPrepare, let sent = subject.sent { subject.sent = { sent() + 1 } }
            return subject
        }
        #expect(found == ExchangeContract.rules.map(\.name))
    }
}

extension ExchangeSubject.Fate {
    fileprivate var act: LossyExchange.Act {
        switch self {
        case .refused: .fail(.status(503))
        case .answerLost: .loseAnswer
        case .held: .hold
        }
    }
}

/// An exchange with one mistake.
private struct Broken: Exchange {
    enum Bug: CaseIterable {
        case noEpoch, strangeVerdict, reversedPage, forgetsDuplicates, firstVerdictForAll, sendsToPrepare
        case sendsWhatIsPrepared, repeats, callsAllHistoryNetwork, hidesCancellation, staysOpen, ignoresKind
    }
    let inner: any Exchange
    let bug: Bug

    func prepare(_ request: ExchangeRequest) -> (any Sendable)? { request }

    func exchange(
        _ request: ExchangeRequest, prepared: (any Sendable)?
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        try await exchange(bug == .sendsWhatIsPrepared ? prepared as? ExchangeRequest ?? request : request)
    }

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        do throws(ExchangeFailure) {
            return try spoiled(try await inner.exchange(request), request)
        } catch {
            var failure = error
            switch bug {
            case .repeats where !error.isCancelled && error.kind != .history:
                return try await inner.exchange(request)
            case .callsAllHistoryNetwork where error.kind == .history: failure.kind = .network
            case .hidesCancellation: failure.isCancelled = false
            case .ignoresKind: failure.kind = .unknown
            case .staysOpen where error == .closed:
                return ExchangeAnswer(epoch: "e", currentSyncVersion: 0, page: ArrayPage([]))
            default: break
            }
            throw failure
        }
    }

    private func spoiled(
        _ answer: ExchangeAnswer, _ request: ExchangeRequest
    ) throws(ExchangeFailure) -> ExchangeAnswer {
        var answer = answer
        switch bug {
        case .noEpoch: answer.epoch = ""
        case .strangeVerdict:
            answer.results.append(ChangeResult(changeID: "strange", verdict: .retry(afterSeconds: nil)))
        case .reversedPage:
            answer.page = ArrayPage(try answer.page.next(maxRecords: .max, maxBytes: .max).reversed())
        case .forgetsDuplicates:
            for place in answer.results.indices { answer.results[place].isDuplicate = false }
        case .firstVerdictForAll:
            for place in answer.results.indices { answer.results[place].changeID = "key-1" }
        default: break
        }
        return answer
    }

    func close() async { await inner.close() }
}
