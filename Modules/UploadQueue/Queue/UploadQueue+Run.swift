public import SyncCore

extension UploadQueue {
    /// Sends one change after another, each in a request of its own, until the task that calls this is cancelled.
    ///
    /// A second call while one is at work returns at once. On cancellation the request under way is given up, its
    /// change stays uncertain, and nothing counts as sent.
    ///
    ///     1 subscribe to the log's notices ──▶ 2 look ──▶ a change? send it, settle it, take the next; again 2
    ///                                             └──▶ none? rest until a notice, a word of the app, or the time told
    ///
    /// What is written between the look and the rest has left its notice in the stream already, so no wake-up is lost.
    public func run(sender: any ChangeSender, gate: any Gate) async {
        guard !isRunning else { return }
        isRunning = true
        defer { isRunning = false }
        // A request wakes one thread less on its way out and one less on its way back.
        await withTaskExecutorPreference((home as? any ThreadSharing)?.taskExecutor) {
            await runOn(sender, gate)
        }
    }

    private func runOn(_ sender: any ChangeSender, _ gate: any Gate) async {
        machine.isSingle = true
        machine.sendsValues = sender.sendsValues
        let (wakes, waking) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.waking = waking
        let notices = log.notices()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in notices { waking.yield() } }
            var wake = wakes.makeAsyncIterator()
            var storeFailures = 0
            while !Task.isCancelled {
                let rest = await look(sender, gate, &storeFailures)
                await wait(rest, &wake, waking)
            }
            group.cancelAll()
        }
        self.waking = nil
        await enter()
        machine.isSingle = false
        machine.sendsValues = false
        leave()
    }

    /// Sends what may go.
    /// - Returns: how long to rest unless something happens, in milliseconds; `nil` for as long as nothing happens.
    private func look(_ sender: any ChangeSender, _ gate: any Gate, _ storeFailures: inout Int) async -> Int64? {
        let urgency: Urgency = isHurried ? .user : .routine
        isHurried = false
        if case .closed(let until, _) = await gate.mayGo(urgency) {
            // A gate that says no time is asked again in a while: whoever opens it may have forgotten to say so.
            let longest = policy.longestDelay
            return until.map { min(longest, max(1, $0 - wallClock.nowMilliseconds)) } ?? longest
        }
        do throws(StoreFailure) {
            let rest = try await sendAll(sender, gate, urgency)
            storeFailures = 0
            return rest
        } catch {
            streams.events.send(.storeFailed(error))
            storeFailures = storeFailures.saturatingAdding(1)
            return policy.delay(failures: storeFailures, isLonger: false, chance: randomness.unit())
        }
    }

    private func sendAll(
        _ sender: any ChangeSender, _ gate: any Gate, _ urgency: Urgency
    ) async throws(StoreFailure) -> Int64? {
        var take = try await claim(urgency)
        while case .batch(let claim) = take {
            let isOpen: Bool
            (take, isOpen) = try await send(claim, sender, gate)
            // The gate knows how long it stays closed, so it is asked, instead of resting without a time.
            guard isOpen || Task.isCancelled else { return 0 }
        }
        if machine.suspicion.wantsProbe, machine.floors.standing(.user, at: moment()) == nil, !Task.isCancelled {
            try await probe(sender)
        }
        // Awake often enough to notice that something is stuck, also where what waits was freed without a word.
        let isOpen = take.summary.hasWork || take.summary.blocked > 0
        let longest = isOpen ? policy.stuckAfter.milliseconds : nil
        guard case .wait(let until, _, _) = take else { return longest }
        let left = max(0, until - wallClock.nowMilliseconds)
        return min(left, longest ?? left)
    }

    private func send(
        _ claim: Claim, _ sender: any ChangeSender, _ gate: any Gate
    ) async throws(StoreFailure) -> (Take, isOpen: Bool) {
        async let answering = Self.answer(to: claim, sender)
        // Only the network is at work now: what can be looked at before the answer is not looked at after it.
        async let looking: Void = lookAhead(of: claim)
        let answer = await answering
        await looking
        let claimsNext = await isOpen(gate)
        let take: Take
        switch answer {
        case .success(let results):
            take = try await settle(
                claim, results: results, stamp: nil, backoffSeconds: nil, urgency: .routine, claimsNext: claimsNext)
        case .failure(var failure):
            // A stop is no one's failure, whatever it looked like to the sender.
            if Task.isCancelled { failure.isCancelled = true }
            take = try await settle(claim, failure: failure, urgency: .routine, claimsNext: claimsNext)
        }
        return (take, claimsNext)
    }

    private func lookAhead(of claim: Claim) async {
        guard claim.summary.pending > 0 else { return }
        await log.prepare(after: claim, limits: machine.limits)
    }

    private static func answer(
        to claim: Claim, _ sender: any ChangeSender
    ) async -> Result<[ChangeResult], ExchangeFailure> {
        do throws(ExchangeFailure) {
            return .success(try await sender.send(claim.changes.map(\.change), deviceID: claim.deviceID))
        } catch {
            return .failure(error)
        }
    }

    private func probe(_ sender: any ChangeSender) async throws(StoreFailure) {
        do throws(ExchangeFailure) {
            try await sender.probe()
        } catch {
            guard !error.isCancelled, !Task.isCancelled else { return }
            try await probed(succeeded: false)
            let pause = max(error.retryAfterSeconds ?? 0, error.backoffSeconds ?? 0)
            if pause > 0 { try await asked(pauseSeconds: pause) }
            return
        }
        try await probed(succeeded: true)
    }

    private func isOpen(_ gate: any Gate) async -> Bool {
        guard !Task.isCancelled else { return false }
        return await gate.mayGo(.routine) == .open
    }

    /// Rests until the time is over or something wakes; `nil` rests until something does, 0 not at all.
    private func wait(
        _ milliseconds: Int64?, _ wake: inout AsyncStream<Void>.Iterator, _ waking: AsyncStream<Void>.Continuation
    ) async {
        guard milliseconds != 0 else { return }
        await withTaskGroup(of: Void.self) { group in
            if let milliseconds {
                group.addTask {
                    do {
                        try await self.clock.sleep(for: .milliseconds(milliseconds))
                    } catch {
                        // kept: only a cancellation ends a sleep early: something else has woken it.
                        return
                    }
                    waking.yield()
                }
            }
            _ = await wake.next(isolation: #isolation)
            group.cancelAll()
        }
    }
}
