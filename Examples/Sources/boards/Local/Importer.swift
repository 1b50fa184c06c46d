import GRDB
import SyncCore

/// Writes an export's final state as local changes; what is here already is left alone.
struct Importer {
    let records: Records

    /// What an import did.
    struct Report: Sendable, Hashable {
        /// How many records of each entity were made.
        var made: [String: Int] = [:]
        /// Records that were here already.
        var present = 0
        /// Records whose parent is neither here nor in the export.
        var orphans = 0
    }

    /// Writes the records, parents before children, in the caller's transaction.
    func run(_ db: Database, _ state: FinalState) throws -> Report {
        var report = Report()
        for record in state.records {
            guard let entity = records.schema[record.key.entity] else { continue }
            if try records.exists(db, record.key) {
                report.present += 1
            } else if try hasParents(db, entity, record.fields) {
                try records.insert(db, record)
                report.made[entity.name, default: 0] += 1
            } else {
                report.orphans += 1
            }
        }
        return report
    }

    private func hasParents(_ db: Database, _ entity: EntitySchema, _ fields: [String: FieldValue]) throws -> Bool {
        guard entity.fields.allSatisfy({ !$0.isRequired || fields[$0.name] != nil }) else { return false }
        return try records.missingParent(db, entity, fields) == nil
    }
}
