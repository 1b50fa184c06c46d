import Logging
import Storage
import SyncCore

/// Hints: listened to while ``run()`` runs; without them the period does the work.
extension SyncEngine {
    /// Listens for ever; a stream that ends or fails is opened again after a pause of full jitter in a growing window.
    func listen(to source: any HintSource) async {
        var pauses = CycleBackoff(
            first: configuration.hintPause.milliseconds, longest: configuration.longestHintPause.milliseconds)
        while !Task.isCancelled {
            // The server's word binds this request like any other.
            while let pause = await serverPause() {
                guard await slept(.milliseconds(pause)) else { return }
            }
            var cause = "it ended"
            var logged = cause
            var floor: Int64 = 0
            do throws(ExchangeFailure) {
                try await source.listen(after: reached > 0 ? reached : nil) { event in await self.heard(event) }
            } catch {
                if error.isCancelled { return }
                cause = error.description
                logged = error.redacted
                let asked = max(error.retryAfterSeconds ?? 0, error.backoffSeconds ?? 0)
                floor = Int64(min(asked, 86_400) * 1_000)
                // A pause is asked for on any answer, and binds every request.
                gate.asked(pauseSeconds: asked, cause: cause, at: moment)
                await keepPause(of: error)
            }
            // One that lived longer than its pause would be begins a new row of failures; who takes streams and ends them at
            // once is asked ever more seldom.
            if let opened = hintsOpened, watch.milliseconds() - opened >= pauses.window(pauses.failures + 1) {
                pauses.reset()
            }
            logger.info("hints lost", metadata: ["cause": "\(logged)"])
            lostHints(cause)
            let window = pauses.failed()
            let pause = floor + Int64(Double(window) * randomness.unit())
            guard await slept(.milliseconds(pause)) else { return }
        }
    }

    private func lostHints(_ cause: String) {
        // A first one that could not be opened counts, too: a server that was away when the run began comes back by it.
        haveHintsBeenLost = true
        guard hintsOpened != nil else { return }
        hintsOpened = nil
        send(.hintsLost(cause))
    }

    private func heard(_ event: HintEvent) {
        switch event {
        case .opened:
            hintsOpened = watch.milliseconds()
            send(.hintsOpened)
            // What came while nobody listened; the whole fleet lost its streams together, perhaps.
            if haveHintsBeenLost { trigger(.serverBack) }
        case .hint(let hint):
            if let asked = askedScopes, !hint.scopes.isEmpty, asked.isDisjoint(with: hint.scopes) { return }
            guard let version = hint.currentSyncVersion else { return trigger(.hint) }
            hinted = max(hinted, version)
            // The server tells the writer, too: while a cycle runs its end knows whether anything is left to fetch.
            if !isCycling { followHints() }
        }
    }

    /// Asks for what was hinted at and is not here.
    ///
    /// After a cycle that asked for everything only what was heard during it counts. A version from before it that did not
    /// come never will: it is of a history that was replaced, or the hint was wrong; another cycle would find no more.
    func followHints() {
        if hinted > reached { trigger(.hint) }
    }
}
