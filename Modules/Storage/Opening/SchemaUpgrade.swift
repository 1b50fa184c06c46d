import GRDB
import SyncCore

/// What a new version of the app knows that the one before did not: fields that were kept aside, and held records.
enum SchemaUpgrade {
    /// Works once for each change of the declared schema, in the transaction that opens the file.
    static func run(_ db: Database, _ context: ApplyContext, now: Int64) throws {
        let declared = fingerprint(context.schema)
        let known = try Meta.text(db, .schema)
        guard known != declared else { return }
        if known != nil {
            try RowWriter.applying(db) {
                try IdentityMap.nameHeld(db, context.schema)
                try takeExtras(db, context, now: now)
                let applier = try SliceApplier(db, context, now: now)
                try applier.retryHeld([.unknownEntity, .type, .constraint, .unsent], limit: .max)
                try applier.retryOrphans()
            }
            try askForForgotten(db, context.schema)
        }
        try Meta.set(db, .schema, declared)
    }

    /// What was let go of entities that are known now comes again with all that is asked for (Decision 312).
    private static func askForForgotten(_ db: Database, _ schema: Schema) throws {
        guard var scopes = try Scopes.read(db) else { return }
        let known = scopes.unknown.filter { schema[$0] != nil }
        guard !known.isEmpty else { return }
        scopes.unknown.subtract(known)
        scopes.readAgain(Set(scopes.asked.keys))
        try scopes.write(db)
    }

    /// Entities, fields and kinds in one text.
    static func fingerprint(_ schema: Schema) -> String {
        schema.entities.map { entity in
            let fields = entity.fields.map { "\($0.name) \($0.column) \($0.kind.rawValue) \($0.rule.rawValue)" }
            return "\(entity.name) \(entity.table) \(entity.version): \(fields.joined(separator: ", "))"
        }.joined(separator: "; ")
    }

    /// Fields that were not declared and are now come into the app's columns (DAT-18).
    private static func takeExtras(_ db: Database, _ context: ApplyContext, now: Int64) throws {
        for entity in context.schema.entities {
            // The ids first: rows must not be written while they are read.
            let ids = try String.fetchAll(
                db, sql: "SELECT id FROM sync_record WHERE entity = ? AND extra IS NOT NULL", arguments: [entity.name])
            for id in ids { try takeExtra(db, RecordKey(entity.name, id), entity, context, now: now) }
        }
    }

    private static func takeExtra(
        _ db: Database, _ key: RecordKey, _ entity: EntitySchema, _ context: ApplyContext, now: Int64
    ) throws {
        guard var stored = try StoredRecord.read(db, key) else { return }
        let waits = try Base.hasRemaining(db, key)
        for field in entity.fields {
            guard let told = stored.extra[field.name] else { continue }
            let value = try IdentityMap.local(db, told, field)
            do {
                if waits {
                    try declare(field.name, value, of: key, db, context)
                } else {
                    _ = try RowWriter(entity).update(db, key.id, [field.name: value])
                }
                stored.extra[field.name] = nil
            } catch let mismatch as ValueMismatch {
                try Journal.event(db, .quarantined, key, detail: mismatch.description, at: now)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                try Journal.event(db, .quarantined, key, detail: error.message, at: now)
            }
        }
        if !waits { try stored.write(db, key) }
    }

    /// Under what waits it is the base that has the field: what is deleted here, or was made anew, does not show it.
    private static func declare(
        _ name: String, _ value: FieldValue, of key: RecordKey, _ db: Database, _ context: ApplyContext
    ) throws {
        guard var work = try RecordWork.load(db, key, context.schema, context.deltas) else { return }
        work.declare(name, value)
        _ = try work.writeRow(db)
        try work.writeLog(db)
    }
}
