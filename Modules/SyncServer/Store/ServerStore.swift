internal import GRDB
internal import SyncCore

/// The server's data over one connection to one SQLite file.
///
/// Confined to the database's queue: every method is called within it, most of them within a transaction of the
/// caller. What is held in memory is as of the last commit; after a failed transaction it is forgotten.
final class ServerStore {
    let statements: Statements
    private var accounts: [String: AccountContext] = [:]
    private var lastRow: Int64
    /// What was read before anybody asked.
    var ahead = PagesAhead()
    /// How often something was written in an account, by its row.
    private var revisions: [Int64: Int] = [:]
    /// Of devices, by their rows, the highest keys of their outcomes, or higher ones.
    var keys: [Int64: OutcomeRuns.Keys] = [:]
    /// Rises with whatever may have touched any account.
    private var era = 0

    init(_ db: Database) throws {
        statements = Statements(db)
        lastRow = try statements.first("SELECT max(n) FROM record", []) { $0[0] as Int64? ?? 0 } ?? 0
    }

    /// A number for a new record, never given before by this store.
    func nextRow() -> Int64 {
        lastRow += 1
        return lastRow
    }

    /// What an account's pages follow from: another value once anything was written that one may show.
    struct Moment: Hashable {
        fileprivate var era: Int
        fileprivate var revision: Int
        fileprivate var head: Int64
    }

    func moment(of account: AccountContext) -> Moment {
        Moment(era: era, revision: revisions[account.row] ?? 0, head: account.head)
    }

    /// Something was written that is not told of one account alone, or what is in memory is not sure to be what is in the file.
    func turnEra() {
        era += 1
        revisions = [:]
    }

    // MARK: - Accounts and devices

    /// Names are told apart by their bytes, as the file does: two that Swift takes for equal, since only their accents are
    /// composed otherwise, are two accounts.
    func known(_ name: String) -> AccountContext? {
        guard let known = accounts[name], known.name.utf8.elementsEqual(name.utf8) else { return nil }
        return known
    }

    /// Remembers an account as of a commit; a few thousand at a time, so that the memory has a bound.
    func keep(_ account: AccountContext) {
        if accounts.count >= 16_384, accounts[account.name] == nil { accounts = [:] }
        accounts[account.name] = account
    }

    /// Forgets what is in memory, since a transaction failed.
    func forget(_ name: String) {
        accounts[name] = nil
        turnEra()
    }

    /// The account of that name, if it ever came.
    func existing(_ name: String) throws -> AccountContext? {
        if let known = known(name) { return known }
        let found = try statements.first(
            "SELECT n, dataset, head, oldest, stamp FROM account WHERE name = ?", [name],
            { row in
                AccountContext(
                    row: row[0], name: name, dataset: row[1], head: row[2], oldest: row[3],
                    stamp: Stamp(packed: UInt64(bitPattern: row[4] as Int64)))
            })
        if let found { keep(found) }
        return found
    }

    /// Forgets all that is in memory.
    func forgetAll() {
        accounts = [:]
        turnEra()
    }

    /// The same, made where it never came. Its data set follows from its name and the file's own, so that it is the same again where an
    /// older file is put back that knows nothing of the account (decision 410).
    func account(_ name: String, makeIdentity: () -> String) throws -> AccountContext {
        if let known = try existing(name) { return known }
        var digest = ContentDigest()
        digest.add(text: try identity(makeIdentity))
        digest.add(text: name)
        let dataset = "d-" + Checksum.text(digest.first) + Checksum.text(digest.second)
        try statements.run("INSERT INTO account(name, dataset) VALUES (?, ?)", [name, dataset])
        let made = AccountContext(
            row: statements.lastRow, name: name, dataset: dataset, head: 0, oldest: 0, stamp: .zero)
        keep(made)
        return made
    }

    /// The file's own name, by chance, which no restored or copied one loses. A file of an earlier program takes the data set
    /// of its first account, which is in all its backups.
    func identity(_ make: () -> String) throws -> String {
        if let known = try meta("identity") { return known }
        let first = try statements.first("SELECT dataset FROM account ORDER BY n LIMIT 1", []) { $0[0] as String }
        let identity = first ?? make()
        try setMeta("identity", identity)
        return identity
    }

    /// What is known of a device; `nil` for one that never decided anything.
    func device(_ name: String, of account: AccountContext) throws -> DeviceContext? {
        if let known = account.devices[name] { return known }
        let found = try statements.first(
            "SELECT n, settled, top, rest FROM device WHERE account = ? AND name = ?", [account.row, name]
        ) { DeviceContext(row: $0[0], settled: $0[1], top: $0[2], usesREST: ($0[3] as Int64) != 0) }
        account.devices[name] = found
        return found
    }

    func makeDevice(_ name: String, of account: AccountContext) throws -> DeviceContext {
        if let known = try device(name, of: account) { return known }
        try statements.run("INSERT INTO device(account, name) VALUES (?, ?)", [account.row, name])
        let made = DeviceContext(row: statements.lastRow, settled: 0, top: 0, usesREST: false)
        account.devices[name] = made
        return made
    }

    /// Whatever is written of an account's records is written in one transaction with this.
    func write(_ account: AccountContext) throws {
        if revisions.count >= 16_384 { turnEra() }
        revisions[account.row, default: 0] += 1
        try statements.run(
            "UPDATE account SET head = ?, oldest = ?, stamp = ? WHERE n = ?",
            [account.head, account.oldest, Int64(bitPattern: account.stamp.packed), account.row])
    }

    /// Keeps the highest settled sequence, and forgets the outcomes up to it.
    func settle(_ sequence: Int64, device: inout DeviceContext) throws {
        guard sequence > device.settled else { return }
        device.settled = sequence
        try statements.run("UPDATE device SET settled = ? WHERE n = ?", [sequence, device.row])
        try statements.run("DELETE FROM outcome WHERE device = ? AND sequence <= ?", [device.row, sequence])
        try statements.run("DELETE FROM outcome_run WHERE device = ? AND last <= ?", [device.row, sequence])
    }

    /// The sum of the highest versions of all accounts, and what was added with new epochs: what `FILE.version` holds.
    func handedOut() throws -> Int64 {
        let sum = try statements.first("SELECT total(head) FROM account", []) { Int64($0[0] as Double) } ?? 0
        return try sum + lift()
    }

    /// Makes ``handedOut()`` more than a number: an older file that is put in its place again, before a version is given, is behind it, too.
    func lift(above number: Int64) throws {
        let missing = try max(number - handedOut(), 0) + 1
        try setMeta("lift", String(lift() + missing))
    }

    private func lift() throws -> Int64 { try meta("lift").flatMap(Int64.init) ?? 0 }

    // MARK: - Meta

    func meta(_ name: String) throws -> String? {
        try statements.first("SELECT value FROM meta WHERE name = ?", [name]) { $0[0] }
    }

    func setMeta(_ name: String, _ value: String?) throws {
        if let value {
            try statements.run("INSERT OR REPLACE INTO meta(name, value) VALUES (?, ?)", [name, value])
        } else {
            try statements.run("DELETE FROM meta WHERE name = ?", [name])
        }
    }
}
