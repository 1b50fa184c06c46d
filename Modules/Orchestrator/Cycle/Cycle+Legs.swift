import Storage
import SyncCore
import UploadQueue

/// Requests that follow one another without a pause: while one is under way, what stands behind it is claimed and made
/// ready; where the answer can change nothing of that, the next request goes first, and the answer is settled while it is
/// under way.
///
/// ```
///   request n ────────▶ answer, plain ──▶ request n + 1 ────────▶ answer, plain ──▶ …
///        └ claim n + 1        settle n, claim n + 2, checkpoint ┘
/// ```
/// What is sent is marked before it leaves, as ever; a claim's answer is settled, and its checkpoint stands, before
/// anything of the next answer counts. Any other answer, or none, ends the row: what was made ready is put back as if it had
/// never been claimed, and the answer goes the usual way. A kill at any point leaves changes that are sent again under their keys.
extension SyncEngine {
    /// The last request of a row, and what came back.
    struct Leg {
        var claim: Claim?
        /// When it was sent, by the wall clock.
        var asked: Int64
        var answer: Result<ExchangeAnswer, ExchangeFailure>
    }

    /// A claim whose answer is plain, and waits to be settled.
    private struct Answered {
        var claim: Claim
        var answer: ExchangeAnswer
    }

    /// Sends requests as long as nothing but the next one follows from their answers.
    /// - Returns: the last one, whose answer is still to be looked at; all before it are settled.
    func legs(
        from first: Claim?, _ position: inout SyncPosition, _ report: inout CycleReport, limit: Int
    ) async throws -> Leg {
        let request = try await request(for: position, first, limit: limit)
        guard let first, handlers.isEmpty, position.scopes == nil, !position.isInFullPass else {
            let asked = noteRequest(request, &report)
            return Leg(claim: first, asked: asked, answer: await Self.answer(exchange, request, nil))
        }
        return try await withThrowingTaskGroup(of: Result<ExchangeAnswer, ExchangeFailure>.self) { group in
            var (claim, request) = (first, request)
            var answered: Answered?
            var prepared: (any Sendable)?
            // Memory of a request that is answered is given back when the next one is under way: some thousand pieces.
            var former: [ExchangeRequest] = []
            while true {
                let asked = noteRequest(request, &report)
                group.begin(atOnce: store.taskExecutor != nil) { [exchange, request, prepared] in
                    await Self.answer(exchange, request, prepared)
                }
                former.removeAll()
                // What the file refuses here gives up the request that is under way, too.
                let ahead = try await takeAhead(behind: claim, answered, &position, &report)
                answered = nil
                var next: ExchangeRequest?
                prepared = nil
                if let ahead {
                    next = try await self.request(for: position, ahead, limit: limit)
                    // As it is where nobody else writes meanwhile: each change has one version.
                    next?.lastSyncVersion = request.lastSyncVersion + Int64(claim.changes.count)
                    prepared = next.flatMap { exchange.prepare($0) }
                }
                guard let answer = try await group.next() else { throw CancellationError() }
                guard let ahead, var next else { return Leg(claim: claim, asked: asked, answer: answer) }
                guard case .success(let got) = answer, isPlain(got, of: claim, asked: asked, position),
                    !Task.isCancelled, gate.unmet(.records, at: moment) == nil,
                    await queue.goesOn(from: claim, results: got.results, to: ahead)
                else {
                    try await queue.putBack(ahead)
                    return Leg(claim: claim, asked: asked, answer: answer)
                }
                await noteSuccess()
                report.bytesSent += got.bytesSent
                report.bytesReceived += got.bytesReceived
                report.count(got.results)
                // True when its answer is looked at: this one is settled, and its checkpoint stands, before that.
                next.lastSyncVersion = got.currentSyncVersion
                answered = Answered(claim: claim, answer: got)
                former.append(request)
                (claim, request) = (ahead, next)
            }
        }
    }

    /// While a claim is under way: settles the answer to the one in front of it, and claims what stands behind it.
    private func takeAhead(
        behind claim: Claim, _ answered: Answered?, _ position: inout SyncPosition, _ report: inout CycleReport
    ) async throws -> Claim? {
        guard let answered else { return try await queue.takeAhead(behind: claim) }
        let ahead = try await queue.settle(
            answered.claim, results: answered.answer.results, stamp: answered.answer.stamp, behind: claim)
        let (reached, from) = (answered.answer.currentSyncVersion, position.checkpoint)
        guard reached > from else { return ahead }
        try await apply(
            PageSlice(
                records: [], from: from, checkpoint: reached, epoch: answered.answer.epoch,
                stamp: answered.answer.stamp, scopes: nil), &position, &report)
        return ahead
    }

    /// Whether nothing has to be done with an answer but to settle its verdicts: no page, no pause, no news of this
    /// device's clock, of the history that is known, and no tombstones that it may lack.
    private func isPlain(
        _ answer: ExchangeAnswer, of claim: Claim, asked: Int64, _ position: SyncPosition
    ) -> Bool {
        do { try check(answer, against: position) } catch { return false }  // kept: the full way tells
        return position.epoch != nil && answer.page.count == 0 && !answer.hasMore && answer.checksum == nil
            && (answer.backoffSeconds ?? 0) <= 0 && answer.currentSyncVersion >= position.checkpoint
            && newOffset(answer.serverTimeMilliseconds, asked: asked, position) == nil
            && (position.checkpoint > 0 || (answer.oldestVersion ?? 0) <= 0)
            && !Self.isDecidedBeforeTombstones(answer, claim)
    }

    private func noteRequest(_ request: ExchangeRequest, _ report: inout CycleReport) -> Int64 {
        // Not before: what finds the gate closed, or another process at work, is not shown as syncing (I8).
        if report.requests == 0 { update { $0.activity = .syncing } }
        report.requests += 1
        report.sent += request.changes.count
        return wallClock.nowMilliseconds
    }

    private static func answer(
        _ exchange: any Exchange, _ request: ExchangeRequest, _ prepared: (any Sendable)?
    ) async -> Result<ExchangeAnswer, ExchangeFailure> {
        do throws(ExchangeFailure) { return .success(try await exchange.exchange(request, prepared: prepared)) } catch {
            return .failure(error)
        }
    }
}

extension ThrowingTaskGroup {
    /// Adds a task that begins at once on this thread, where the platform can: its request leaves before anything else is done.
    fileprivate mutating func begin(
        atOnce: Bool, _ operation: sending @escaping @isolated(any) () async throws -> ChildTaskResult
    ) {
        if atOnce, #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            addImmediateTask(operation: operation)
        } else {
            addTask(operation: operation)
        }
    }
}
