import SyncCore

extension ExchangeContract {
    static let failing: [ContractRule<ExchangeSubject>] = [
        rule("another history is a failure of that class, and nothing of the request is done") { subject, expect in
            let epoch = try await subject.exchange.exchange(request("c-1", [board(1)])).epoch
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                _ = try await subject.exchange.exchange(request("c-2", [board(2)], epoch: "another"))
            }
            try expect.equal(failure.kind, .history, "kind")
            try expect.equal(failure.reachedServer, true, "reached")
            try expect.equal(failure.epoch, epoch, "the epoch told")
            let answer = try await subject.exchange.exchange(request("c-3", from: "device-b", epoch: epoch))
            try expect.equal(answer.page.count, 1, "records")
        },
        rule("D11: what is refused is thrown, and not repeated") { subject, expect in
            guard let suffer = subject.suffer, let sent = subject.sent else { return }
            _ = try await subject.exchange.exchange(request("c-1"))
            let before = sent()
            suffer(.refused)
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                _ = try await subject.exchange.exchange(request("c-2", [board(1)]))
            }
            try expect.equal(failure.kind, .temporary, "kind")
            try expect.equal(failure.isCancelled, false, "cancelled")
            try expect.equal(sent() - before, 1, "requests")
        },
        rule("D11: a lost answer is a failure, not repeated; the same change again is told a duplicate") {
            subject, expect in
            guard let suffer = subject.suffer, let sent = subject.sent else { return }
            let epoch = try await subject.exchange.exchange(request("c-1")).epoch
            let before = sent()
            suffer(.answerLost)
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                _ = try await subject.exchange.exchange(request("c-2", [board(1)], epoch: epoch))
            }
            try expect.equal(failure.kind, .network, "kind")
            try expect.equal(failure.isBrokenOff, true, "broken off")
            try expect.equal(sent() - before, 1, "requests")
            let again = try await subject.exchange.exchange(request("c-3", [board(1)], epoch: epoch))
            try expect.equal(again.results.map(\.isDuplicate), [true], "duplicate")
        },
        rule("a cancelled request fails as cancelled, and the next one goes") { subject, expect in
            guard let suffer = subject.suffer else { return }
            suffer(.held)
            let failure = try await underWay(subject, expect) { $0.cancel() }
            try expect.equal(failure.isCancelled, true, "cancelled")
            _ = try await subject.exchange.exchange(request("c-2"))
        },
        rule("closing ends what is under way; what comes later fails; closing again is harmless") { subject, expect in
            guard subject.closes else { return }
            if let suffer = subject.suffer {
                suffer(.held)
                _ = try await underWay(subject, expect) { _ in await subject.exchange.close() }
            }
            await subject.exchange.close()
            await subject.exchange.close()
            _ = try await expect.failure { () async throws(ExchangeFailure) in
                _ = try await subject.exchange.exchange(request("c-2", [board(1)]))
            }
        },
    ]

    /// What a request came to that was held, after something was done to it.
    private static func underWay(
        _ subject: ExchangeSubject, _ expect: Expectation, _ act: (Task<ExchangeFailure?, Never>) async -> Void
    ) async throws -> ExchangeFailure {
        let task = Task { () -> ExchangeFailure? in  // owner: this rule, which waits for it
            do throws(ExchangeFailure) {
                _ = try await subject.exchange.exchange(request("c-1"))
                return nil
            } catch {
                return error
            }
        }
        await subject.waitForHeld()
        await act(task)
        guard let failure = await task.value else {
            throw ContractViolation(contract: expect.contract, rule: expect.rule, message: "it was answered")
        }
        return failure
    }
}
