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
                try takeExtras(db, context.schema, now: now)
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
    private static func takeExtras(_ db: Database, _ schema: Schema, now: Int64) throws {
        for entity in schema.entities {
            // The ids first: rows must not be written while they are read.
            let ids = try String.fetchAll(
                db, sql: "SELECT id FROM sync_record WHERE entity = ? AND extra IS NOT NULL", arguments: [entity.name])
            for id in ids { try takeExtra(db, RecordKey(entity.name, id), entity, now: now) }
        }
    }

    private static func takeExtra(_ db: Database, _ key: RecordKey, _ entity: EntitySchema, now: Int64) throws {
        guard var stored = try StoredRecord.read(db, key) else { return }
        for field in entity.fields {
            guard let told = stored.extra[field.name] else { continue }
            let value = try IdentityMap.local(db, told, field)
            do {
                // Deleted here, and the server is not told yet: it has no row, and shows again if the delete comes to nothing.
                if try !RowWriter(entity).update(db, key.id, [field.name: value]), stored.base == nil,
                    try Base.hasRemaining(db, key)
                {
                    stored.base = RecordState(isLive: true, fields: [:])
                }
            } catch let mismatch as ValueMismatch {
                try Journal.event(db, .quarantined, key, detail: mismatch.description, at: now)
                continue
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                try Journal.event(db, .quarantined, key, detail: error.message, at: now)
                continue
            }
            stored.extra[field.name] = nil
            if stored.base != nil { stored.base?.fields[field.name] = value }
        }
        try stored.write(db, key)
    }
}
