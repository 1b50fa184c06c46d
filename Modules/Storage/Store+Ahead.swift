import GRDB
public import SyncCore
internal import GRDBSQLite

/// A look at the turn to come (``SingleTurn``) while the request before it is under way.
struct TurnAhead {
    var found: SingleTurn.Found
    /// What was to be claimed by.
    var limits: ClaimLimits
    /// The file as it was when it was looked at.
    var file: FileVersion
    /// As whose holder of the lease.
    var generation: Int64?
}

/// The state of the file as one connection sees it: another one after every commit, whoever made it.
///
/// SQLite's own counter (`SQLITE_FCNTL_DATA_VERSION`), which costs no statement. Unlike `PRAGMA data_version` it counts what
/// the connection itself commits, too. It says nothing but that something happened, and numbers of two connections have
/// nothing to do with each other.
struct FileVersion: Hashable {
    private let number: UInt32

    /// Inside a transaction: the state that the transaction sees. `nil` where SQLite does not say.
    init?(_ db: Database) {
        var number: UInt32 = 0
        guard let connection = db.sqliteConnection,
            sqlite3_file_control(connection, "main", SQLITE_FCNTL_DATA_VERSION, &number) == SQLITE_OK
        else { return nil }
        self.number = number
    }
}

extension Store {
    /// Looks at what would go after this claim, on the writing connection, without writing anything.
    ///
    /// ``settle(_:claim:)`` uses it where the file is still the same to the last commit, this process's own and others'; then
    /// every answer is still the same, too. Otherwise it asks anew.
    public func prepare(after claim: Claim, limits: ClaimLimits) async {
        ahead = nil
        // What other parts of the app's file follow a settlement is not looked at here.
        guard claim.changes.count == 1, context.snapshots.isEmpty, !DirtyFlags.isUsed(schema) else { return }
        let changeID = claim.changes[0].change.id
        do { ahead = try look(after: changeID, limits) } catch {
            // kept: a hint only: the settlement meets the same trouble, and tells.
            return
        }
    }

    private func look(after changeID: String, _ limits: ClaimLimits) throws -> TurnAhead? {
        let (turn, generation) = (SingleTurn(table: context.changes), leaseGeneration)
        return try database.writeWithoutTransaction { db in
            try turn.lookAhead(db, changeID, limits, generation: generation)
                .map { TurnAhead(found: $0.found, limits: limits, file: $0.file, generation: generation) }
        }
    }

    /// The settlement as it was looked at ahead: the writes alone.
    /// - Returns: `nil` where it is another one, or anything has happened since; nothing was written then.
    func settleAhead(_ settlement: Settlement, claim limits: ClaimLimits?) throws(StoreFailure) -> Claim? {
        guard let ahead else { return nil }
        self.ahead = nil
        guard let plain = SingleTurn.plain(settlement), plain.changeID == ahead.found.changeID, limits == ahead.limits,
            ahead.generation == leaseGeneration
        else { return nil }
        return try performKnown("settling the queue", ahead.file) { db in
            try SingleTurn(table: context.changes).perform(db, ahead.found, version: plain.version)
        }
    }
}
