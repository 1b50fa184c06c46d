import SyncCore

/// I11: absence never deletes. What a device showed, and shows no more, went for a reason.
///
/// A reason is a delete made here, a create that was taken back, given up or refused, a tombstone or a leave that the
/// device was told, a root that it holds no more, a full pass, or a parent that went: of that the question is asked by
/// itself.
struct Vanishings {
    /// What a look found.
    private struct Seen {
        var rows: Rows
        /// Rows that only what was unsent under them kept: the server's word that they are gone is older than the look.
        var kept: Set<RecordKey>
        /// Rows that stayed on the device, whose delete is no change.
        var localRows: Set<RecordKey>
        var epoch: String?
        var pass: Int64
        var isInFullPass: Bool
        var scopes: HeldScopes?
    }

    private var last: Seen?
    /// Records that an answer, or a page as far as the device read it, told to be dead, or out of what it holds.
    private var told: Set<RecordKey> = []

    /// The device's files are older ones, or another user's.
    mutating func restored() { self = Vanishings() }

    /// The user chose what the device holds: what goes until the next look, goes for that.
    mutating func chose() { last = nil }

    /// The device reads these records of a page or of a verdict.
    mutating func heard(_ records: some Sequence<ServerRecord>) {
        for record in records where record.presence != .live { told.insert(record.key) }
    }

    /// An edit of the record was refused since there is no such one (seed 79155: it was pruned, and made anew a moment later).
    mutating func missed(_ records: some Sequence<RecordKey>) { told.formUnion(records) }

    /// Records that are gone since the last look, and nobody knows why.
    /// - Parameters:
    ///   - refused: keys that the server refused.
    ///   - isNotHeld: whether the record is dead by the server's word, or is not the device's to have, or left it with
    ///     a note.
    mutating func unexplained(
        _ facts: DeviceFacts, _ ledger: Ledger, _ schema: Schema, refused: Set<String>, isNotHeld: (RecordKey) -> Bool
    ) -> [RecordKey] {
        defer {
            last = Seen(
                rows: facts.rows, kept: facts.heldForUnsent, localRows: facts.localRows, epoch: facts.epoch,
                pass: facts.pass, isInFullPass: facts.isInFullPass, scopes: facts.scopes)
        }
        guard let last, last.epoch == facts.epoch, last.pass == facts.pass, !last.isInFullPass, !facts.isInFullPass
        else { return [] }
        let gone = last.rows.rows.keys.filter { facts.rows.rows[$0] == nil }
        return gone.filter { key in
            !told.contains(key) && !last.kept.contains(key) && !last.localRows.contains(key)
                && !facts.held.contains(key) && !isOver(key, ledger, refused)
                && !parents(of: key, in: last.rows, schema).contains { facts.rows.rows[$0] == nil }
                && !isOut(key, last, facts, schema) && !isNotHeld(key)
        }.sorted()
    }

    /// Whether the device's own changes took the record away.
    private func isOver(_ key: RecordKey, _ ledger: Ledger, _ refused: Set<String>) -> Bool {
        (ledger.byRecord[key] ?? []).contains { change in
            switch ledger.entries[change]?.operation {
            case .delete: true
            // It may stand in the queue within another change, which was given up (seed 70928).
            case .create:
                [change, ledger.heir(of: change)].contains { ledger.fates[$0] != nil || refused.contains($0) }
            case .update, nil: false
            }
        }
    }

    /// Whether it stood under a root that the device does not hold all the time, or would stand under such a one now: what is above it
    /// went there, as a move that was refused goes back (seed 36681).
    private func isOut(_ key: RecordKey, _ last: Seen, _ facts: DeviceFacts, _ schema: Schema) -> Bool {
        guard last.scopes != nil || facts.scopes != nil else { return false }
        guard let before = root(of: key, schema, in: { last.rows.rows[$0] }),
            let now = root(of: key, schema, in: { facts.rows.rows[$0] ?? last.rows.rows[$0] })
        else { return true }
        return ![(last.scopes, before), (facts.scopes, before), (facts.scopes, now)].allSatisfy { scopes, place in
            scopes.map { $0.asked[place] != nil } ?? true
        }
    }

    /// What is above a record, and under nothing; `nil` where something between is not there.
    private func root(of key: RecordKey, _ schema: Schema, in row: (RecordKey) -> [String: FieldValue]?) -> RecordKey? {
        var place = key
        for _ in 0..<64 {
            guard let entity = schema[place.entity], let fields = row(place) else { return nil }
            guard let field = entity.parents.first, let parent = field.reference?.entity else { break }
            guard case .string(let id)? = fields[field.name] else { return nil }
            place = RecordKey(parent, id)
        }
        return place
    }

    private func parents(of key: RecordKey, in rows: Rows, _ schema: Schema) -> [RecordKey] {
        (schema[key.entity]?.parents ?? []).compactMap { field in
            guard let parent = field.reference?.entity, case .string(let id)? = rows.rows[key]?[field.name] else {
                return nil
            }
            return RecordKey(parent, id)
        }
    }
}
