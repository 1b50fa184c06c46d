import Ferry
import SyncCore

/// Whether what others wrote is here: from what the database holds, without asking anybody.
struct PullStanding {
    /// Records that wait here for something that is missing.
    let held: Int
    /// What is not here yet, a sentence; `nil` where the last pull brought everything, or none was ever tried.
    let gap: String?
    /// What ended the last pull before it had brought everything; `nil` where it had, or none was ever tried.
    let cause: String?
    /// The server refused the credentials of the last pull.
    let needsCredentials: Bool

    /// What is said of refused credentials.
    static let refused = "The server refused the credentials; the next sync tries those it is given."

    init(_ store: Store) async throws {
        let position = try await store.position()
        // Of a damaged database the queue is saved, and what the server has of everything else comes with the next pull.
        let kinds = try await position.epoch == nil ? store.events().map(\.kind) : []
        let reasons = try await position.held > 0 ? store.heldCounts() : [:]
        self.init(
            position, last: try await store.recentCycles(limit: 1).first, reasons: reasons,
            wasDamaged: kinds.contains("movedAside"), isBegunAnew: kinds.contains("begunAnew"))
    }

    /// - Parameter reasons: how many of the held records are kept back by what.
    init(
        _ position: SyncPosition, last: CycleRecord?, reasons: [HeldRecord.Reason: Int] = [:], wasDamaged: Bool = false,
        isBegunAnew: Bool = false
    ) {
        held = position.held
        let failed = last.flatMap { $0.isPulled ? nil : $0 }
        needsCredentials = failed?.end == CycleEnd.needsCredentials.name
        cause = failed.map(Self.cause)
        if wasDamaged {
            gap = "The database was damaged; the next sync brings what the server has."
        } else if isBegunAnew {
            gap = "The database that was here is gone; the next sync brings what the server has."
        } else if position.awaitsConfirmation {
            gap =
                "The server's new history lacks a large part of the records here; nothing is removed before "
                + "`boards sync --confirm`."
        } else if position.isInFullPass {
            gap = "A full pass over everything that the server has came to no end yet."
        } else if position.held > 0 {
            gap = Self.gap(held: position.held, reasons)
        } else if needsCredentials {
            gap = Self.refused
        } else if let failed {
            gap = "The last sync did not come to the end of what the server has (\(failed.end))."
        } else {
            gap = nil
        }
    }

    /// What keeps records of the server's from being here, each kind with its number: some wait, others cannot be kept.
    private static func gap(held: Int, _ reasons: [HeldRecord.Reason: Int]) -> String {
        let kinds: [(HeldRecord.Reason, String)] = [
            (.type, "Records that this app cannot keep, with a value of another type than it knows"),
            (.constraint, "Records that this app cannot keep, against a rule of its tables"),
            (.unknownEntity, "Records that this app cannot keep, of an entity that it does not know"),
            (.unsent, "Records that are gone on the server and wait for changes that are not sent yet"),
        ]
        var sentences = kinds.compactMap { reason, what in reasons[reason].map { "\(what): \($0)." } }
        let missing = held - kinds.reduce(0) { $0 + (reasons[$1.0] ?? 0) }
        if missing > 0 { sentences.append("Records that wait for something that is missing here: \(missing).") }
        return sentences.joined(separator: " ")
    }

    private static func cause(_ cycle: CycleRecord) -> String {
        if cycle.end == CycleEnd.needsCredentials.name { return "the server refused the credentials" }
        guard let message = cycle.message, !message.isEmpty, message != cycle.end else { return cycle.end }
        return "\(cycle.end) (\(message))"
    }
}
