import Ferry
import SyncCore

/// Whether what others wrote is here: from what the database holds, without asking anybody.
struct PullStanding {
    /// Records that wait here for something that is missing.
    let held: Int
    /// What is not here yet, a sentence; `nil` where the last pull brought everything, or none was ever tried.
    let gap: String?

    init(_ store: Store) async throws {
        self.init(try await store.position(), last: try await store.recentCycles(limit: 1).first)
    }

    init(_ position: SyncPosition, last: CycleRecord?) {
        held = position.held
        if position.awaitsConfirmation {
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
