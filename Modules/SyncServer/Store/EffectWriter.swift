internal import GRDB
internal import SyncCore

/// Writes what a request decided: records, links, leavings, outcomes, all in the caller's transaction.
struct EffectWriter {
    let store: ServerStore
    let nowMilliseconds: Int64

    private var statements: Statements { store.statements }

    /// Writes the ledger's records.
    func write(_ ledger: Ledger, account: AccountContext) throws {
        // By their places: a loop over the entries would copy each of them.
        for place in ledger.entries.indices where ledger.entries[place].isTouched {
            try write(ledger.entries[place], ledger, account: account)
        }
        for leaving in ledger.leavings {
            try statements.run(
                "INSERT OR REPLACE INTO leaving(root, record, version, at) VALUES (?, ?, ?, ?)",
                [leaving.root, leaving.row, leaving.version, nowMilliseconds])
        }
        try comeBack(ledger)
        for place in ledger.entries.indices where ledger.entries[place].hasActivityAlone {
            try statements.run(
                "UPDATE record SET activity = max(activity, ?) WHERE n = ?",
                [nowMilliseconds, ledger.entries[place].row])
        }
    }

    private func write(_ entry: Ledger.Entry, _ ledger: Ledger, account: AccountContext) throws {
        let root = entry.root
        if entry.isKept {
            try update(entry, root: root)
        } else {
            try insert(entry, root: root, account: account)
        }
        try link(entry, ledger)
        if let kept = entry.keptRoot, kept != root {
            try statements.run("DELETE FROM leaving WHERE root = ? AND record = ?", [root, entry.row])
        }
    }

    /// A record that left a root and is under it again by the end of the request has not left it.
    private func comeBack(_ ledger: Ledger) throws {
        guard !ledger.leavings.isEmpty else { return }
        for entry in ledger.entries where entry.isTouched {
            let root = entry.root
            if ledger.leavings.contains(where: { $0.root == root && $0.row == entry.row }) {
                try statements.run("DELETE FROM leaving WHERE root = ? AND record = ?", [root, entry.row])
            }
        }
    }

    private func insert(_ entry: Ledger.Entry, root: Int64, account: AccountContext) throws {
        try statements.run(
            """
            INSERT INTO record(n, account, entity, id, version, root, dead, stamp, at, activity, unit, fields, writes)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """
        ) { row in
            row.add(entry.row)
            row.add(account.row)
            row.add(entry.key.entity)
            row.add(entry.key.id)
            row.add(entry.version)
            row.add(root)
            row.add(entry.isDead || !entry.state.exists)
            row.add(Int64(bitPattern: entry.state.highestStamp.packed))
            row.add(nowMilliseconds)
            row.add(nowMilliseconds)
            row.add(entry.unit)
            row.add(try RecordCodec.fields(of: entry.state))
            row.add(try RecordCodec.writes(of: entry.state))
        }
    }

    private func update(_ entry: Ledger.Entry, root: Int64) throws {
        let isNewVersion = entry.version != entry.versionBefore
        try statements.run(
            """
            UPDATE record SET version = ?1, root = ?2, dead = ?3, stamp = ?7, at = CASE WHEN ?4 THEN ?5 ELSE at END,
                unit = CASE WHEN ?4 THEN ?6 ELSE unit END, fields = ?8, writes = ?9,
                activity = CASE WHEN ?11 THEN max(activity, ?5) ELSE activity END WHERE n = ?10
            """
        ) { row in
            row.add(entry.version)
            row.add(root)
            row.add(entry.isDead || !entry.state.exists)
            row.add(isNewVersion)
            row.add(nowMilliseconds)
            row.add(entry.unit)
            row.add(Int64(bitPattern: entry.state.highestStamp.packed))
            row.add(try RecordCodec.fields(of: entry.state))
            row.add(try RecordCodec.writes(of: entry.state))
            row.add(entry.row)
            row.add(entry.hasActivity && entry.entity.tracksActivity)
        }
    }

    private func link(_ entry: Ledger.Entry, _ ledger: Ledger) throws {
        let isSame =
            entry.parents.count == entry.keptParents.count
            && zip(entry.parents, entry.keptParents).allSatisfy { ledger.entries[$0].row == $1 }
        guard !isSame else { return }
        let parents = entry.parents.map { ledger.entries[$0].row }
        for parent in entry.keptParents where !parents.contains(parent) {
            try statements.run("DELETE FROM link WHERE parent = ? AND child = ?", [parent, entry.row])
        }
        for parent in parents where !entry.keptParents.contains(parent) {
            try statements.run("INSERT OR IGNORE INTO link(parent, child) VALUES (?, ?)", [parent, entry.row])
        }
    }

    /// Stores one outcome with its effect.
    func write(_ outcome: ChangeOutcome, members: String, device: inout DeviceContext) throws {
        guard let digest = outcome.digest, let sequence = outcome.sequence else { return }
        do {
            try statements.run(
                """
                INSERT INTO outcome(device, sequence, key, verdict, members, first, second, at, intent)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
            ) { row in
                row.add(device.row)
                row.add(sequence)
                row.add(outcome.changeID)
                row.add(outcome.decision.verdict)
                row.add(members)
                row.add(Int64(bitPattern: digest.first))
                row.add(Int64(bitPattern: digest.second))
                row.add(nowMilliseconds)
                row.add(outcome.intent)
            }
        } catch let failure as DatabaseError where failure.resultCode == .SQLITE_CONSTRAINT {
            throw KeyIsKnown()
        }
        device.top = max(device.top, sequence)
    }

    func write(_ aliases: [Naming.Alias], account: AccountContext) throws {
        for alias in aliases {
            try statements.run(
                "INSERT OR REPLACE INTO alias(account, entity, id, given) VALUES (?, ?, ?, ?)",
                [account.row, alias.key.entity, alias.key.id, alias.id])
        }
    }
}
