import Ferry
import SyncCore

/// Whether what others wrote is here: from what the database holds, without asking anybody.
struct PullStanding {
    /// Records that wait here for something that is missing.
    let held: Int
    /// What is not here yet, a sentence; `nil` where the last pull brought everything, or none was ever tried.
    let gap: String?

    init(_ store: Store) async throws {
        let position = try await store.position()
        // Of a damaged database the queue is saved, and what the server has of everything else comes with the next pull.
        let isNew = position.epoch == nil
        let wasDamaged = try await isNew ? store.events().contains { $0.kind == "movedAside" } : false
        self.init(position, last: try await store.recentCycles(limit: 1).first, wasDamaged: wasDamaged)
    }

    init(_ position: SyncPosition, last: CycleRecord?, wasDamaged: Bool = false) {
        held = position.held
        if wasDamaged {
            gap = "The database was damaged; the next sync brings what the server has."
        } else if position.awaitsConfirmation {
            gap =
                "The server's new history lacks a large part of the records here; nothing is removed before "
                + "`boards sync --confirm`."
        } else if position.isInFullPass {
            gap = "A full pass over everything that the server has came to no end yet."
        } else if position.held > 0 {
            gap = "Records that wait for something that is missing here: \(position.held)."
        } else if let last, !last.isPulled {
            gap = "The last sync did not come to the end of what the server has (\(last.end))."
        } else {
            gap = nil
        }
    }
}
