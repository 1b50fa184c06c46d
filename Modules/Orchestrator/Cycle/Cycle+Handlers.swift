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

    /// These records came, and stand with their checkpoint.
    func tellApplied(_ records: [ServerRecord]) async {
        for handler in handlers {
            for record in records where record.key.entity == handler.schema.name {
                do { try await handler.applyResponse(record) } catch { failed(handler, error) }
            }
        }
    }

    /// These changes were decided and recorded.
    func tellDecided(_ claim: Claim, _ results: [ChangeResult]) async {
        guard !handlers.isEmpty else { return }
        let decided = Set(results.filter(\.verdict.isDecided).map(\.changeID))
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
