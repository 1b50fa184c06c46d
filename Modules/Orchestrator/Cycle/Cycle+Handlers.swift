import Logging
import Storage
import SyncCore
import UploadQueue

/// The app's own handlers: gone over in the order in which they were given, never inside a transaction.
///
/// A declared entity has no work here and costs nothing. What one handler throws is an event, and stops no other.
extension SyncEngine {
    /// What handlers found becomes entries of the change log, one transaction for each handler, before packaging.
    func collectFound() async throws(StoreFailure) {
        for handler in handlers {
            let found: [FoundChange]
            do { found = try await handler.collectDirty() } catch {
                // Who gave up because the cycle is given up has not failed; it is asked again in the next one.
                if Task.isCancelled { return }
                failed(handler, error)
                continue
            }
            guard !found.isEmpty else { continue }
            let name = handler.schema.name
            guard found.allSatisfy({ $0.record.entity == name }) else {
                failed(
                    handler,
                    message: "it found changes of another entity than its own, “\(name)”; nothing of it was taken")
                continue
            }
            do throws(StoreFailure) { try await store.recordNew(found) } catch {
                // What cannot be said on the wire is this handler's mistake; a database in trouble is everybody's.
                guard error.kind == .invalid else { throw error }
                failed(handler, error)
            }
        }
    }

    /// Builds what goes out for changes of the handlers' entities that are sent for the first time, and keeps it, so that
    /// their keys mean the same for ever. What a handler cannot build is set aside, visibly, and what needs it waits; the
    /// rest of the batch is claimed anew.
    /// - Returns: the new take where something was set aside; `nil` where the claim may go as it is.
    func withoutUnbuilt(_ claim: Claim, _ urgency: Urgency, _ report: inout CycleReport) async throws(StoreFailure)
        -> Take?
    {
        if !arePayloadsPruned {
            try await store.prunePayloads()
            arePayloadsPruned = true
        }
        let builders = self.builders
        // What was sent before means what it was sent as, also where its handler was not there yet.
        let own = claim.changes.lazy.filter { !$0.wasSent }.map(\.change).filter { builders[$0.record.entity] != nil }
        let kept = try await store.payloads(of: own.map(\.id))
        var failures: [ChangeResult] = []
        func refuse(_ change: Change, _ fault: String) {
            if let handler = builders[change.record.entity] { failed(handler, message: fault) }
            let rejection = Rejection(
                code: .init(rawValue: "payload"), message: "What goes out for it could not be built: \(fault)")
            failures.append(ChangeResult(changeID: change.id, verdict: .rejected(rejection)))
        }
        var built: [Change] = []
        for var change in own where kept[change.id] == nil {
            do {
                if let payload = try builders[change.record.entity]?.buildPayload(change) {
                    change.fields = payload.fields
                }
                built.append(change)
            } catch {
                refuse(change, "\(error)")
            }
        }
        if try await !isKept(built) {
            // One of them has no form on the wire: that handler's mistake, and nobody else's.
            for change in built where try await !isKept([change]) {
                refuse(change, "a value of it has no form on the wire")
            }
        }
        guard !failures.isEmpty else { return nil }
        report.refused += failures.count
        return try await queue.settle(claim, results: failures, stamp: nil, backoffSeconds: nil, urgency: urgency)
    }

    /// Keeps what was built, in one transaction; `false` where a value cannot be said on the wire.
    private func isKept(_ built: [Change]) async throws(StoreFailure) -> Bool {
        guard !built.isEmpty else { return true }
        do throws(StoreFailure) {
            try await store.keepPayloads(built)
            return true
        } catch {
            guard error.kind == .invalid else { throw error }
            return false
        }
    }

    /// The changes as they go out.
    func payload(of claim: Claim?) async throws(StoreFailure) -> [Change] {
        guard let claim else { return [] }
        let changes = claim.changes.map(\.change)
        let builders = self.builders
        let own = builders.isEmpty ? [] : changes.filter { builders[$0.record.entity] != nil }.map(\.id)
        guard !own.isEmpty else { return changes }
        let kept = try await store.payloads(of: own)
        return changes.map { change in
            var change = change
            if let fields = kept[change.id] { change.fields = fields }
            return change
        }
    }

    /// The app's own handlers by entity; a declared one sends its changes as they are.
    var builders: [String: any Syncable] {
        Dictionary(
            handlers.filter { !($0 is EntitySchema) }.map { ($0.schema.name, $0) },
            uniquingKeysWith: { first, _ in first })
    }

    /// So many are refused again in one cycle, each an event; those behind them have their turn in the next ones.
    private static let mostRefused = 100

    /// What handlers refused before, or were not told since the program was ended: once in a cycle, before anything new.
    func tellAgain() async throws(StoreFailure) {
        toldUpTo = 0
        let last = try await store.lastUntold()
        guard last > 0 else { return }
        var left = Self.mostRefused
        while left > 0, let refused = try await tell(upTo: last, limit: left, isAgain: true) { left -= refused }
        toldUpTo = try await store.lastUntold()
    }

    /// What came, left, or was said in verdicts since the last look, and stands by now.
    func tellApplied() async throws(StoreFailure) {
        guard !builders.isEmpty else { return }
        while try await tell(upTo: .max, limit: 500, isAgain: false) != nil {}
    }

    /// Tells the next ones; what a handler refuses is kept.
    /// - Returns: how many were refused; `nil` where nothing is left, or the task is cancelled.
    private func tell(upTo last: Int64, limit: Int, isAgain: Bool) async throws(StoreFailure) -> Int? {
        let next = try await store.untold(after: toldUpTo, upTo: last, limit: limit)
        let listeners = builders
        var (heard, refused): ([Int64], [Int64]) = ([], [])
        for (number, record) in next.map({ ($0.number, $0.record) }) {
            toldUpTo = number
            guard let handler = listeners[record.key.entity] else { continue }
            do {
                try await handler.applyResponse(record)
                heard.append(number)
            } catch {
                // Who gave up because the cycle is given up has not failed.
                if Task.isCancelled { break }
                failed(handler, error)
                refused.append(number)
            }
        }
        try await store.noteTold(heard, refused: isAgain ? refused : [])
        return next.isEmpty || Task.isCancelled ? nil : refused.count
    }

    /// These changes were decided and recorded.
    func tellDecided(_ claim: Claim, _ results: [ChangeResult]) async {
        guard !handlers.isEmpty else { return }
        let decided = Set(results.filter(\.verdict.isDecided).map(\.changeID))
        let builders = self.builders
        let own = claim.changes.map(\.change).filter { builders[$0.record.entity] != nil && decided.contains($0.id) }
        do throws(StoreFailure) { try await store.dropPayloads(of: own.map(\.id)) } catch {
            // The next start of the program drops them.
            logger.error("built payloads were not dropped", metadata: ["failure": "\(error.redacted)"])
        }
        for handler in handlers {
            let changes = claim.changes.map(\.change)
                .filter { $0.record.entity == handler.schema.name && decided.contains($0.id) }
            guard !changes.isEmpty else { continue }
            do { try await handler.markSynced(changes) } catch { failed(handler, error) }
        }
    }

    private func failed(_ handler: any Syncable, _ error: any Error) { failed(handler, message: "\(error)") }

    private func failed(_ handler: any Syncable, message: String) {
        logger.error("a handler failed", metadata: ["entity": "\(handler.schema.name)"])
        send(.handlerFailed(entity: handler.schema.name, message: message))
    }
}
