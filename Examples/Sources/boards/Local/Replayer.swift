import GRDB
import SyncCore

/// Does an export's actions again as local edits, oldest first.
struct Replayer {
    let records: Records

    /// What a replay did.
    struct Report: Sendable, Hashable {
        /// Actions that were done.
        var replayed = 0
        /// Records made, edits made, records deleted.
        var created = 0
        var updated = 0
        var deleted = 0
        /// Boards, lists and others made because an action named them.
        var mentioned = 0
        /// Actions of a known kind that changed nothing here: about a record that is not here, or already so.
        var withoutEffect = 0
        /// How often each unknown kind was met.
        var unknown: [String: Int] = [:]
    }

    /// Replays all of it in the caller's transaction.
    func run(_ db: Database, _ plan: ReplayPlan) throws -> Report {
        var report = Report()
        for action in plan.actions {
            guard let steps = action.steps else {
                report.unknown[action.kind, default: 0] += 1
                continue
            }
            var isEdit = false
            for step in steps where try perform(db, step, &report) && !step.isMention { isEdit = true }
            if isEdit { report.replayed += 1 } else { report.withoutEffect += 1 }
        }
        return report
    }

    /// - Returns: whether the step changed anything.
    private func perform(_ db: Database, _ step: ReplayStep, _ report: inout Report) throws -> Bool {
        switch step {
        case .mention(let key, let fields):
            guard try make(db, key, fields) else { return false }
            report.mentioned += 1
        case .create(let key, let fields):
            guard try make(db, key, fields) else { return false }
            report.created += 1
        case .update(let key, _, let after):
            guard try update(db, key, after) else { return false }
            report.updated += 1
        case .put(let key, let field, let element):
            guard let set = try records.fetch(db, key)?[field] else { return false }
            guard try update(db, key, [field: ElementSet.putting(element, into: set)]) else { return false }
            report.updated += 1
        case .take(let key, let field, let element):
            guard let set = try records.fetch(db, key)?[field] else { return false }
            guard try update(db, key, [field: ElementSet.taking(element, from: set)]) else { return false }
            report.updated += 1
        case .delete(let key):
            guard try records.fetch(db, key) != nil else { return false }
            try records.delete(db, key)
            report.deleted += 1
        }
        return true
    }

    private func make(_ db: Database, _ key: RecordKey, _ fields: [String: FieldValue]) throws -> Bool {
        guard let entity = records.schema[key.entity], try !records.exists(db, key),
            entity.fields.allSatisfy({ !$0.isRequired || fields[$0.name] != nil }),
            try records.missingParent(db, entity, fields) == nil
        else { return false }
        try records.insert(db, LocalRecord(key, fields))
        return true
    }

    /// Sets what differs. An object that names only some of its members (a board's `prefs`) keeps the others.
    private func update(_ db: Database, _ key: RecordKey, _ after: [String: FieldValue]) throws -> Bool {
        guard let entity = records.schema[key.entity], let present = try records.fetch(db, key),
            try records.missingParent(db, entity, after) == nil
        else { return false }
        var changed: [String: FieldValue] = [:]
        for field in entity.fields {
            guard var new = after[field.name] else { continue }
            let old = present[field.name] ?? .null
            if case .object(let before) = old, case .object(let told) = new {
                new = .object(before.merging(told) { $1 })
            }
            if field.rule == .union { new = ElementSet.ordered(new, after: old) }
            if !new.isSame(as: old) { changed[field.name] = new }
        }
        guard !changed.isEmpty else { return false }
        try records.update(db, key, changed)
        return true
    }
}
