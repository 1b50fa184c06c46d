import GRDB
import SyncCore

/// Values of changes that the server answered with `expired`: decided once, and nobody knows how.
///
/// Most were done, by this device before it was restored from a backup, or by the one that it is a copy of: then a page brings what they
/// wrote. But the number may have been settled because the change was taken back there before it was ever sent (PROTOCOL.md, `settled`), and
/// then the values are nowhere else. So the journal keeps them (kind `expired`) until a page shows the same; what is left can be
/// restored (Decision 431).
enum Lapsed {
    private static let kind = "expired"

    /// Notes what the change wrote and the record, as far as it is known here, does not say; not what a later change here writes again.
    static func note(_ db: Database, _ change: StoredChange, _ work: RecordWork, now: Int64) throws {
        let later = work.changes.filter { $0.position > change.position }
        let theirs = FieldValue.object(work.base.fields.filter { !$0.value.isNull })
        var lines: [ChangeNotes.Conflict] = []
        func line(_ field: String?, _ mine: FieldValue, _ theirs: FieldValue, _ rule: MergeRule) {
            lines.append(.init(field: field, mine: mine, theirs: theirs, winner: "theirs", rule: rule, kind: kind))
        }
        switch change.operation {
        case .delete:
            if work.base.isLive, later.isEmpty { line(nil, .null, theirs, .lastWriter) }
        case .create where !work.base.isLive:
            // Edits behind it are above it, and are told by themselves.
            if !later.contains(where: { $0.operation == .create }) {
                line(nil, .object(change.fields.mapValues(\.new).filter { !$0.value.isNull }), .null, .lastWriter)
            }
        case .create, .update:
            for (name, delta) in change.fields.inByteOrder {
                guard change.operation == .update || !delta.new.isNull else { continue }
                let present = work.base.fields[name] ?? .null
                guard !present.isSame(as: delta.new), !later.contains(where: { $0.fields[name] != nil }) else {
                    continue
                }
                line(name, delta.new, present, delta.rule)
            }
        }
        for each in lines { try ChangeNotes.conflict(db, each, of: change, now: now) }
        if !lines.isEmpty { try Meta.set(db, .lapsed, 1) }
    }

    /// A page shows what was noted: it was done, and is nobody's loss.
    static func forget(_ db: Database, shownBy records: some Sequence<ServerRecord>) throws {
        guard try Meta.integer(db, .lapsed) == 1 else { return }
        let lines = try Row.fetchAll(
            db, sql: "SELECT number, entity, id, field, mine FROM sync_conflict WHERE kind = ?", arguments: [kind])
        guard !lines.isEmpty else { return try Meta.set(db, .lapsed, nil as Int64?) }
        let shown = Dictionary(records.map { ($0.key, $0) }) { $1 }
        for row in lines {
            guard let record = shown[RecordKey(row[1], row[2])], record.presence != .gone else { continue }
            let mine = try (row[4] as String?).map { try FieldValue(json: $0, maximumDepth: 80) } ?? .null
            let isThere: Bool
            if let field = row[3] as String? {
                isThere = record.presence == .live && (record.fields[field] ?? .null).isSame(as: mine)
            } else if case .object(let fields) = mine {
                isThere =
                    record.presence == .live
                    && fields.allSatisfy { (record.fields[$0.key] ?? .null).isSame(as: $0.value) }
            } else {
                isThere = record.presence == .deleted
            }
            guard isThere else { continue }
            try db.execute(sql: "DELETE FROM sync_conflict WHERE number = ?", arguments: [row[0] as Int64])
        }
    }
}
