internal import GRDB
internal import SyncCore

/// Writes what a request decided: records, links, leavings, outcomes, all in the caller's transaction.
struct EffectWriter {
    let store: ServerStore
    let nowMilliseconds: Int64

    private var statements: Statements { store.statements }

    /// How many rows of one kind go by one statement, where there are as many.
    private static let together = 8

    /// Writes the ledger's records.
    func write(_ ledger: Ledger, account: AccountContext) throws {
        var made: [Int] = []
        var links: [(parent: Int64, child: Int64)] = []
        var text = JSONWriter(capacity: 1_024)
        // By their places: a loop over the entries would copy each of them.
        for place in ledger.entries.indices where ledger.entries[place].isTouched {
            if ledger.entries[place].isKept { try update(place, ledger, &text) } else { made.append(place) }
            try unlink(place, ledger, &links)
            let root = ledger.entries[place].root
            if let kept = ledger.entries[place].keptRoot, kept != root {
                try statements.run(
                    "DELETE FROM leaving WHERE root = ? AND record = ?", [root, ledger.entries[place].row])
            }
        }
        try insert(made, ledger, account: account, &text)
        try link(links)
        let leavings = lastLeavings(of: ledger)
        for leaving in leavings.values.sorted(by: { ($0.version, $0.root, $0.row) < ($1.version, $1.root, $1.row) }) {
            try statements.run(
                "INSERT OR REPLACE INTO leaving(root, record, version, at) VALUES (?, ?, ?, ?)",
                [leaving.root, leaving.row, leaving.version, nowMilliseconds])
        }
        try comeBack(ledger, leavings)
        for place in ledger.entries.indices where ledger.entries[place].hasActivityAlone {
            try statements.run(
                "UPDATE record SET activity = max(activity, ?) WHERE n = ?",
                [nowMilliseconds, ledger.entries[place].row])
        }
    }

    static let againTold: StaticString =
        "UPDATE leaving SET version = ?1, at = ?2 WHERE record = ?3 AND version > ?4 AND version < ?1"

    /// Tells again what records left, where a verdict tells of one to who may not have heard of that: under the version that
    /// the record has, since who goes by versions would keep it for one that is below (Decision 433).
    func tellLeavesAgain(_ ledger: Ledger) throws {
        guard !ledger.heard.isEmpty else { return }
        for (place, version) in ledger.heard.sorted(by: { $0.key < $1.key }) {
            // Of what was kept before the request none is above the version from then.
            guard version < ledger.entries[place].versionBefore || !ledger.leavings.isEmpty else { continue }
            try statements.run(
                Self.againTold, [ledger.entries[place].version, nowMilliseconds, ledger.entries[place].row, version])
        }
    }

    private struct Left: Hashable {
        var root: Int64
        var row: Int64
    }

    /// Of a record that left a root more than once, the last time.
    private func lastLeavings(of ledger: Ledger) -> [Left: Ledger.Leaving] {
        var last: [Left: Ledger.Leaving] = [:]
        for leaving in ledger.leavings { last[Left(root: leaving.root, row: leaving.row)] = leaving }
        return last
    }

    /// A record that left a root and is under it again by the end of the request has not left it.
    private func comeBack(_ ledger: Ledger, _ leavings: [Left: Ledger.Leaving]) throws {
        guard !leavings.isEmpty else { return }
        for place in ledger.entries.indices where ledger.entries[place].isTouched {
            let left = Left(root: ledger.entries[place].root, row: ledger.entries[place].row)
            guard leavings[left] != nil else { continue }
            try statements.run("DELETE FROM leaving WHERE root = ? AND record = ?", [left.root, left.row])
        }
    }

    /// Eight by one statement, which says `OR FAIL` so that SQLite keeps no copy of each page to undo it: whatever fails here
    /// takes all of the request with it (Decision 186).
    private func insert(
        _ places: [Int], _ ledger: Ledger, account: AccountContext, _ text: inout JSONWriter
    ) throws {
        var rest = places[...]
        while rest.count >= Self.together {
            try statements.run(
                """
                INSERT OR FAIL INTO record(
                    n, account, entity, id, version, root, dead, stamp, at, activity, unit, fields, writes)
                VALUES
                    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
                    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
                    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?),
                    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
            ) { row in
                for place in rest.prefix(Self.together) { try add(place, ledger, account, to: &row, &text) }
            }
            rest = rest.dropFirst(Self.together)
        }
        for place in rest {
            try statements.run(
                """
                INSERT INTO record(
                    n, account, entity, id, version, root, dead, stamp, at, activity, unit, fields, writes)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
            ) { try add(place, ledger, account, to: &$0, &text) }
        }
    }

    private func add(
        _ place: Int, _ ledger: Ledger, _ account: AccountContext, to row: inout Arguments, _ text: inout JSONWriter
    ) throws {
        row.add(ledger.entries[place].row)
        row.add(account.row)
        row.add(ledger.entries[place].key.entity)
        row.add(ledger.entries[place].key.id)
        row.add(ledger.entries[place].version)
        row.add(ledger.entries[place].root)
        row.add(ledger.entries[place].isDead || !ledger.entries[place].state.exists)
        row.add(Int64(bitPattern: ledger.entries[place].state.highestStamp.packed))
        row.add(nowMilliseconds)
        row.add(nowMilliseconds)
        row.add(ledger.entries[place].unit)
        try add(fieldsAndWritesAt: place, ledger, to: &row, &text)
    }

    private func update(_ place: Int, _ ledger: Ledger, _ text: inout JSONWriter) throws {
        let isNewVersion = ledger.entries[place].version != ledger.entries[place].versionBefore
        try statements.run(
            """
            UPDATE record SET version = ?1, root = ?2, dead = ?3, stamp = ?7, at = CASE WHEN ?4 THEN ?5 ELSE at END,
                unit = CASE WHEN ?4 THEN ?6 ELSE unit END, fields = ?8, writes = ?9,
                activity = CASE WHEN ?11 THEN max(activity, ?5) ELSE activity END WHERE n = ?10
            """
        ) { row in
            row.add(ledger.entries[place].version)
            row.add(ledger.entries[place].root)
            row.add(ledger.entries[place].isDead || !ledger.entries[place].state.exists)
            row.add(isNewVersion)
            row.add(nowMilliseconds)
            row.add(ledger.entries[place].unit)
            row.add(Int64(bitPattern: ledger.entries[place].state.highestStamp.packed))
            try add(fieldsAndWritesAt: place, ledger, to: &row, &text)
            row.add(ledger.entries[place].row)
            row.add(ledger.entries[place].hasActivity && ledger.entries[place].entity.tracksActivity)
        }
    }

    /// By its place: a copy of the state would count a reference for each of its parts.
    private func add(
        fieldsAndWritesAt place: Int, _ ledger: Ledger, to row: inout Arguments, _ text: inout JSONWriter
    ) throws {
        text.clear()
        try ledger.entries[place].state.fields.write(into: &text)
        row.add(text)
        text.clear()
        try ledger.entries[place].state.writeOrigins(into: &text)
        row.add(text)
    }

    /// Removes the links to parents that the record has no more, and notes those to new ones.
    private func unlink(_ place: Int, _ ledger: Ledger, _ links: inout [(parent: Int64, child: Int64)]) throws {
        let (row, kept) = (ledger.entries[place].row, ledger.entries[place].keptParents)
        let above = ledger.entries[place].parents
        let isSame = above.count == kept.count && zip(above, kept).allSatisfy { ledger.entries[$0].row == $1 }
        guard !isSame else { return }
        let parents = above.map { ledger.entries[$0].row }
        for parent in kept where !parents.contains(parent) {
            try statements.run("DELETE FROM link WHERE parent = ? AND child = ?", [parent, row])
        }
        for parent in parents where !kept.contains(parent) { links.append((parent, row)) }
    }

    private func link(_ links: [(parent: Int64, child: Int64)]) throws {
        var rest = links[...]
        while rest.count >= Self.together {
            try statements.run(
                """
                INSERT OR IGNORE INTO link(parent, child)
                VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?)
                """
            ) { row in
                for link in rest.prefix(Self.together) {
                    row.add(link.parent)
                    row.add(link.child)
                }
            }
            rest = rest.dropFirst(Self.together)
        }
        for link in rest {
            try statements.run("INSERT OR IGNORE INTO link(parent, child) VALUES (?, ?)", [link.parent, link.child])
        }
    }

    func write(_ aliases: [Naming.Alias], account: AccountContext) throws {
        for alias in aliases {
            try statements.run(
                "INSERT OR REPLACE INTO alias(account, entity, id, given) VALUES (?, ?, ?, ?)",
                [account.row, alias.key.entity, alias.key.id, alias.id])
        }
    }
}
