import Logging
import Storage
import SyncCore
import UploadQueue

extension SyncEngine {
    /// One cycle, push before pull: performs what ``CycleMachine`` says until it says that nothing is left.
    ///
    /// Safe at each interruption: a claim is durable before a byte leaves; verdicts are settled in one transaction,
    /// before the page; each slice stands with its checkpoint. What is lost in between is asked for or sent again, with
    /// the same key.
    func cycle(_ urgency: Urgency, _ beginning: Beginning) async -> CycleReport {
        var report = CycleReport()
        guard urgency == .user || !isPaused else {
            report.end = .notNow(untilMilliseconds: nil, cause: "paused")
            return report
        }
        await learnPath(for: .records)
        guard !Task.isCancelled else {
            report.end = .cancelled
            return report
        }
        // Before anything is written: a closed gate costs nothing.
        let answer = gate.enter(.records, urgency, at: moment)
        isHeldByGate = answer != .open
        if case .closed(let until, let cause) = answer {
            report.end = .notNow(untilMilliseconds: until, cause: cause)
            return report
        }
        // A probe that never left, or was given up with what was under way, does not stand in the way of the next.
        let probe = gate.breaker.state
        cycleProbe = probe
        defer { if gate.isProbe(probe) { gate.breaker.learnedNothing(nowMilliseconds: watch.milliseconds()) } }
        let opening: CycleOpening
        do throws(StoreFailure) {
            let begun = try await store.beginCycle(
                holder: holder, seconds: configuration.leaseSeconds, pageLimit: configuration.pageLimit)
            guard let begun else {
                report.end = .leaseHeld
                return report
            }
            opening = begun
        } catch {
            report.end = .store(error)
            return report
        }
        (markedPage, isFileKnown) = (opening.pageLimit, opening.isFileKnown)
        await perform(urgency, opening, &report)
        do throws(StoreFailure) {
            if try await !close(beginning, &report) {
                // Something was written while the request was under way.
                let opening = CycleOpening(position: try await store.position(), queue: try await store.summary())
                await perform(urgency, opening, isPulled: true, &report)
                _ = try await close(beginning, &report)
            }
        } catch {
            if report.end == .complete { report.end = .store(error) }
            logger.error("the end of a cycle was not noted", metadata: ["failure": "\(error.redacted)"])
        }
        return report
    }

    /// Gives the lease back, and notes how the cycle went.
    /// - Returns: `false` where that was to be the look at what was written meanwhile, and something was: nothing is noted then.
    private func close(_ beginning: Beginning, _ report: inout CycleReport) async throws(StoreFailure) -> Bool {
        let (endsPage, ifStill) = (markedPage != nil || isPageToEnd, isLookLeft)
        (markedPage, isPageToEnd, isLookLeft) = (nil, false, false)
        var (inStep, waiting): (String?, String?) = (nil, nil)
        if report.requests > 0 {
            if report.end != .complete || !status.queue.isEmpty { await learnLastSynced() }
            let now = watch.milliseconds()
            func text(isWaiting: Bool) -> String {
                CycleRecord(
                    beginning, report, now: now, isPullOwed: isPullOwed, synced: status.lastSyncedMilliseconds,
                    isWaiting: isWaiting
                ).text
            }
            inStep = text(isWaiting: false)
            if report.end == .complete { waiting = text(isWaiting: true) }
        }
        report.closing = try await store.release(
            holder: holder, noting: inStep, whereWaiting: waiting, at: beginning.wall,
            keeping: configuration.keptCycles, endsPage: endsPage, ifStill: ifStill)
        return !ifStill || report.closing != nil
    }

    private func perform(
        _ urgency: Urgency, _ opening: CycleOpening, isPulled: Bool = false, _ report: inout CycleReport
    ) async {
        // Ends with this call: whoever leaves the scope of an `async let` gives it up and waits for it.
        async let _: Void = keepLease()
        do {
            try await performCycle(urgency, opening, isPulled: isPulled, &report)
        } catch let failure as StoreFailure {
            report.end = .store(failure)
        } catch {
            report.end = .store(StoreFailure(kind: .unexpected, message: "\(error)"))
        }
        if report.end != .complete { isLookLeft = false }
    }

    /// - Parameter isPulled: the cycle has asked for everything already, and goes on with what was written meanwhile.
    private func performCycle(
        _ urgency: Urgency, _ opening: CycleOpening, isPulled: Bool, _ report: inout CycleReport
    ) async throws {
        var machine = CycleMachine(isPulled: isPulled)
        var position = opening.position
        var look = opening.queue
        if isPassToRepeat, !isPulled {
            position = try await repeatWaitingPass(position)
            isPassToRepeat = false
        }
        if !handlers.isEmpty, !isPulled {
            if !builders.isEmpty { try await tellAgain() }
            try await collectFound()
            guard !Task.isCancelled else {
                report.end = .cancelled
                return
            }
            look = try await store.summary()
        }
        if !isOwedKnown, look.hasWork {
            // Whoever synced this file last may have been another process.
            isPullOwed = try await store.recentCycles(limit: 1).first?.isPullOwed ?? false
            isOwedKnown = true
        }
        // The server's word binds push and pull, whoever heard it (a queue of the app's own, another process): its pause is for the
        // whole device, so it is looked at before anything is claimed.
        let known = learnedWord(look.schedule)
        // Without the server's time, stamps may be far off: the first request asks for it and carries no changes. Nor does it
        // where the last push took the pull along when it failed.
        let isPushFirst = isTimeKnown(position) && !isPullOwed
        var take = try await known == nil && (isPulled || isPushFirst) ? taken(urgency, look) : Take.nothing(look)
        let schedule = take.summary.schedule
        if !isPulled, take.claim == nil, let pause = learnedWord(schedule) {
            update { $0.queue = take.summary }
            let until = wallClock.nowMilliseconds + pause
            report.end = .notNow(untilMilliseconds: until, cause: schedule.cause ?? "the server asked for a pause")
            return
        }
        var step = machine.begin(hasBatch: take.claim != nil)
        while true {
            switch step {
            case .take:
                take = try await queue.take(urgency: urgency)
                step = machine.begin(hasBatch: take.claim != nil)
            case .request(let withChanges):
                if let cause = gate.unmet(.records, at: moment) {
                    // What is claimed goes back, and a pull goes on from its checkpoint.
                    isHeldByGate = true
                    step = .finish(.notNow(untilMilliseconds: nil, cause: cause))
                    continue
                }
                let claim = withChanges ? take.claim : nil
                if let claim, !handlers.isEmpty, let rest = try await withoutUnbuilt(claim, urgency, &report) {
                    take = rest
                    step = machine.begin(hasBatch: take.claim != nil)
                } else {
                    step = try await roundTrip(claim, &machine, &position, &take, urgency, &report)
                }
            case .beginFullPass(let epoch):
                send(.fullPassBegan)
                try await store.beginFullPass(epoch: epoch)
                position = try await store.position()
                step = machine.begin(hasBatch: take.claim != nil)
            case .endFullPass:
                let end = try await endFullPass(&position, &report)
                send(.fullPassEnded(end))
                if try await closePass(end, &position, &report) {
                    step = machine.applied(hasMore: true, inFullPass: false, hasBatch: take.claim != nil)
                } else {
                    step = machine.fullPassEnded(end, hasBatch: take.claim != nil)
                }
            case .finish(let end):
                // A batch that was claimed and does not go in this cycle stays next in the queue, blamed for nothing.
                if let claim = take.claim {
                    try await queue.giveBack(claim)
                    take = .nothing(try await store.summary())
                }
                if position.scopes != nil {
                    report.removed += try await store.evictLeaving(isPulled: end == .complete)
                    try await tellApplied()
                }
                if end == .complete, position.awaitsConfirmation, report.isPulled,
                    try await lookAgainAtWaitingPass(&position, &report)
                {
                    step = machine.applied(hasMore: true, inFullPass: false, hasBatch: false)
                    continue
                }
                // What was not taken away for want of the app's word keeps the two from being in step.
                let end = end == .complete && position.awaitsConfirmation ? .awaitsConfirmation : end
                reached = position.lowest
                askedScopes = position.scopes.map { Set($0.keys) }
                let summary = try await report.isIdle ? take.summary : store.summary()
                update { $0.queue = summary }
                _ = learnedWord(summary.schedule)
                if machine.hasPushKeptAway, !report.isPulled { isPullOwed = true }
                report.end = end
                return
            }
        }
    }

    /// One request and what its answer, or its absence, does here.
    private func roundTrip(
        _ claim: Claim?, _ machine: inout CycleMachine, _ position: inout SyncPosition, _ take: inout Take,
        _ urgency: Urgency, _ report: inout CycleReport
    ) async throws -> CycleMachine.Step {
        isLookLeft = false
        // A process that dies over a page finds it smaller the next times (PRC-21).
        let limit: Int
        if let marked = markedPage {
            (limit, markedPage) = (marked, nil)
        } else {
            limit = try await store.beginPage(limit: configuration.pageLimit)
        }
        let result: Result<CycleMachine.Step, any Error>
        do {
            result = .success(try await roundTrip(claim, &machine, &position, &take, urgency, &report, limit: limit))
        } catch {
            result = .failure(error)
        }
        if case .success(.finish(.complete)) = result, report.isIdle, position.scopes == nil {
            // Nothing is left to do but to give the lease back, which says so.
            isPageToEnd = true
        } else {
            try await store.endPage()
        }
        return try result.get()
    }

    private func roundTrip(
        _ claim: Claim?, _ machine: inout CycleMachine, _ position: inout SyncPosition, _ take: inout Take,
        _ urgency: Urgency, _ report: inout CycleReport, limit: Int
    ) async throws -> CycleMachine.Step {
        let leg = try await legs(from: claim, &position, &report, limit: limit)
        let (claim, asked) = (leg.claim, leg.asked)
        let answer: ExchangeAnswer
        do {
            answer = try leg.answer.get()
            try check(answer, against: position)
        } catch {
            await note(error, probe: cycleProbe)
            // Not with the user's urgency: what failed just now is tried again in another cycle, not at once.
            if let claim { take = try await queue.settle(claim, failure: error, urgency: .routine) }
            if claim == nil, !error.isCancelled {
                try await queue.probed(succeeded: false)
                let pause = max(error.retryAfterSeconds ?? 0, error.backoffSeconds ?? 0)
                if pause > 0 { try await queue.asked(pauseSeconds: pause) }
            }
            let step = machine.failed(error, hadChanges: claim != nil, hasBatch: take.claim != nil)
            // An open breaker lets one request through, not a cycle.
            if gate.breaker.state != .closed, !error.isCancelled { return .finish(.exchange(error)) }
            return step
        }
        await noteSuccess()
        gate.asked(pauseSeconds: answer.backoffSeconds ?? 0, cause: "the server asked for a pause", at: moment)
        report.bytesSent += answer.bytesSent
        report.bytesReceived += answer.bytesReceived
        try await learnTime(answer.serverTimeMilliseconds, asked: asked, &position)
        if position.epoch == nil {
            try await store.bind(dataset: answer.dataset, epoch: answer.epoch)
            position.epoch = answer.epoch
            position.dataset = answer.dataset
        }
        if let claim {
            isPullOwed = false
            report.count(answer.results)
            take = try await queue.settle(
                claim, results: answer.results, sent: answer.sentCount, stamp: answer.stamp,
                backoffSeconds: answer.backoffSeconds, urgency: urgency)
            await tellDecided(claim, answer.results)
            try await tellApplied()
        } else {
            try await queue.probed(succeeded: true)
            if let pause = answer.backoffSeconds, pause > 0 { try await queue.asked(pauseSeconds: pause) }
            // A push that failed in this cycle waits for its own time, whoever wishes it.
            let urgency = machine.mustPushWait ? .routine : urgency
            // An answer that brings nothing is followed by the end of the cycle, which looks.
            isLookLeft = take.claim == nil && answer.isIdle && mayLookLater(take.summary, position, report)
            if take.claim == nil, !isLookLeft {
                take = try await taken(urgency, store.summary(), known: take.summary)
            }
        }
        if Self.isDecidedBeforeTombstones(answer, claim), !position.isInFullPass, !machine.hasBegunPass {
            return machine.diverged(hasBatch: take.claim != nil)
        }
        // The page may leave out what follows from a change whose verdict is not here (PROTOCOL.md, *Records*): it is asked for
        // again, and then the change is a repeated one, or none is sent.
        guard Self.isWhole(answer, of: claim) else {
            return machine.lacked(hasBatch: take.claim != nil)
        }
        // The page says nothing of a root that was asked for by an id that the server did not know.
        if Self.namesRoot(answer, of: claim, position.scopes) {
            position = try await store.position()
            return machine.applied(hasMore: true, inFullPass: false, hasBatch: take.claim != nil)
        }
        // One that was begun in this cycle goes on, whatever the clocks say.
        if isOutlived(position, answer.oldestVersion), position.awaitsConfirmation || !machine.hasBegunPass {
            return machine.diverged(hasBatch: take.claim != nil)
        }
        if try await mayLackTombstones(answer, position), !machine.hasBegunPass {
            return machine.diverged(hasBatch: take.claim != nil)
        }
        let hasMore: Bool
        do {
            hasMore = try await apply(answer, &position, &report)
        } catch let failure as StoreFailure {
            // What this device cannot keep says nothing against a push.
            isPullOwed = false
            return machine.couldNotApply(failure)
        } catch let failure as ExchangeFailure {
            return machine.failed(failure, hadChanges: false, hasBatch: false)
        } catch is CancellationError {
            // What is applied stands with its checkpoint; the rest is asked for again.
            return .finish(.cancelled)
        }
        if !hasMore { report.isPulled = true }
        if try await hasDiverged(answer) { return machine.diverged(hasBatch: take.claim != nil) }
        return machine.applied(
            hasMore: hasMore, inFullPass: position.isInFullPass && !position.awaitsConfirmation,
            hasBatch: take.claim != nil)
    }

    /// Whether the answer tells the server's own id of a record that is asked for as a root.
    private static func namesRoot(_ answer: ExchangeAnswer, of claim: Claim?, _ scopes: [String: Int64]?) -> Bool {
        guard let claim, let scopes else { return false }
        let named = Set(answer.results.lazy.filter { $0.serverIDOfMade != nil }.map(\.changeID))
        guard !named.isEmpty else { return false }
        return claim.changes.contains { queued in
            let record = queued.change.record
            return named.contains(queued.change.id) && scopes["\(record.entity):\(record.id)"] != nil
        }
    }

    /// Whether the end of the cycle may look for what was written meanwhile: nothing else is left to do then.
    private func mayLookLater(_ known: QueueSummary, _ position: SyncPosition, _ report: CycleReport) -> Bool {
        isFileKnown && report.isIdle && !known.hasWork && position.scopes == nil && !position.isInFullPass
            && !position.awaitsConfirmation
    }

    /// Whether each change that went has its verdict.
    private static func isWhole(_ answer: ExchangeAnswer, of claim: Claim?) -> Bool {
        guard let claim, !claim.changes.isEmpty else { return true }
        let decided = Set(answer.results.lazy.map(\.changeID))
        return claim.changes.prefix(max(0, answer.sentCount ?? .max)).allSatisfy { decided.contains($0.change.id) }
    }

    func request(for position: SyncPosition, _ claim: Claim?, limit: Int) async throws(StoreFailure)
        -> ExchangeRequest
    {
        ExchangeRequest(
            cycleID: ids.makeID(), deviceID: claim?.deviceID ?? position.deviceID, dataset: position.dataset,
            epoch: position.epoch, lastSyncVersion: position.checkpoint, scopes: position.scopes,
            settled: claim?.settled, fullPass: position.isInFullPass, limit: limit,
            wantsChecksum: claim == nil ? try await wantsComparison(position) : false,
            changes: try await payload(of: claim))
    }

    /// What may go now. An empty queue is only looked at: a claim of nothing would cost a transaction.
    private func taken(
        _ urgency: Urgency, _ look: QueueSummary, known: QueueSummary? = nil
    ) async throws(StoreFailure) -> Take {
        // What is new to the queue's listeners goes past them, work or not.
        guard look.hasWork || look != known ?? status.queue else { return .nothing(look) }
        return try await queue.take(urgency: urgency)
    }

    /// Whether stamps can be trusted: the server's time was measured, and this device's clock has not jumped since.
    private func isTimeKnown(_ position: SyncPosition) -> Bool {
        let wall = wallClock.nowMilliseconds
        if clockCheck.map({ abs((wall - $0.wall) - $0.watch.milliseconds()) > 1_000 }) ?? false {
            hasClockJumped = true
        }
        clockCheck = (wall, StopWatch(clock))
        return position.clockOffsetMilliseconds != nil && !hasClockJumped
    }

    /// The server's clock as it was in the middle between question and answer; a server that tells no time is taken to
    /// have this device's.
    private func learnTime(
        _ serverTime: Int64?, asked: Int64, _ position: inout SyncPosition
    ) async throws(StoreFailure) {
        hasClockJumped = false
        guard let measured = newOffset(serverTime, asked: asked, position) else { return }
        try await store.setClockOffset(milliseconds: measured)
        position.clockOffsetMilliseconds = measured
    }

    /// The offset that an answer tells, where it clearly is another than the known one.
    func newOffset(_ serverTime: Int64?, asked: Int64, _ position: SyncPosition) -> Int64? {
        let half = (wallClock.nowMilliseconds - asked) / 2
        let known = position.clockOffsetMilliseconds
        let measured = serverTime.map { $0 - (asked + half) } ?? known ?? 0
        // A slow answer says little: its time may be off by half of what it took.
        let isClear = abs(measured - (known ?? 0)) > 1_000 + abs(half)
        guard known == nil || isClear else { return nil }
        return isClear ? measured : known ?? 0
    }

    /// What Transport cannot know: that the answer is of the history that this device follows.
    func check(_ answer: ExchangeAnswer, against position: SyncPosition) throws(ExchangeFailure) {
        if let known = position.dataset, let told = answer.dataset, known != told {
            throw ExchangeFailure(
                kind: .history, code: "otherDataset", message: "expected the data set \(known), got \(told)",
                reachedServer: true)
        }
        if let known = position.epoch, known != answer.epoch {
            throw ExchangeFailure(
                kind: .network, message: "expected an answer of the epoch \(known), got \(answer.epoch)",
                reachedServer: true)
        }
    }

    /// The page, slice by slice, each with the checkpoint at its last version.
    /// - Returns: whether there is more to ask for.
    private func apply(
        _ answer: ExchangeAnswer, _ position: inout SyncPosition, _ report: inout CycleReport
    ) async throws -> Bool {
        let (from, scopes) = (position.checkpoint, position.scopes)
        let (epoch, stamp, reached) = (answer.epoch, answer.stamp, answer.currentSyncVersion)
        let hasMore = answer.hasMore
        @Sendable func slice(_ records: [ServerRecord], _ left: Int) -> PageSlice {
            let last = records.last?.version ?? reached
            return PageSlice(
                records: records, from: from, checkpoint: left > 0 ? last : max(last, reached), epoch: epoch,
                stamp: stamp, scopes: scopes, hasMore: left > 0 || hasMore)
        }
        // What is held, and what verdicts brought, is gone over once nothing more is to come, news or not.
        var isToClose =
            scopes != nil && !answer.hasMore && (position.isOpen || position.held > 0 || !answer.results.isEmpty)
        var asksAgain = false
        var left = answer.page.count
        while left > 0 {
            let before = left
            let next = try await store.apply(
                nextOf: answer.page, maxRecords: configuration.sliceRecords, maxBytes: configuration.sliceBytes
            ) { slice($0, before - $0.count) }
            guard let (applied, done) = next else { break }
            left -= applied.records.count
            try note(done, of: applied, &position, &report)
            asksAgain = done.asksAgain
            if !applied.hasMore { isToClose = false }
            try await tellApplied()
            try Task.checkCancellation()
        }
        if isToClose || !position.stands(at: reached) {
            asksAgain = try await apply(slice([], 0), &position, &report).asksAgain
        }
        // Of roots that come back, more is to be asked for from another place.
        if asksAgain { position = try await store.position() }
        return answer.hasMore || asksAgain
    }

    @discardableResult
    func apply(
        _ slice: PageSlice, _ position: inout SyncPosition, _ report: inout CycleReport
    ) async throws(StoreFailure) -> SliceReport {
        let done = try await store.apply(slice)
        try note(done, of: slice, &position, &report)
        return done
    }

    private func note(
        _ done: SliceReport, of slice: PageSlice, _ position: inout SyncPosition, _ report: inout CycleReport
    ) throws(StoreFailure) {
        guard !done.wasDropped else {
            throw StoreFailure(
                kind: .busy, message: "the page was asked for from a place that is no longer the present one")
        }
        position.advance(to: slice.checkpoint)
        position.isOpen = position.scopes != nil && slice.hasMore
        report.received += done.applied + done.deleted
        report.held += done.held
    }
}

extension ExchangeAnswer {
    /// Whether it brings nothing, and says nothing that something has to be done about.
    fileprivate var isIdle: Bool { page.count == 0 && !hasMore && checksum == nil }
}

extension Take {
    /// The batch that may go now.
    var claim: Claim? {
        if case .batch(let claim) = self { claim } else { nil }
    }
}
