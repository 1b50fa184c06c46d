import GRDB
import SyncCore

/// Which declared fields records of this history have named: those the server knows. What a record does not name of them has no
/// value; of the others nobody can tell whether the server is older than the app (FAILURES.md, DAT-21; Decision 469).
struct NamedFields {
    /// By name, of one entity.
    private var names: Set<String>

    static func read(_ db: Database) throws -> NamedFields {
        let text = try Meta.text(db, .named) ?? ""
        return NamedFields(names: Set(text.split(separator: "\n").map(String.init)))
    }

    func contains(_ field: String, of entity: String) -> Bool { names.contains(Self.line(entity, field)) }

    /// Notes what a slice has named; writes only what is new.
    static func note(_ db: Database, _ tables: some Sequence<AppliedTable>) throws {
        let named = tables.flatMap { table in table.namedFields.map { line(table.entity.name, $0) } }
        guard !named.isEmpty else { return }
        var known = try read(db)
        let count = known.names.count
        known.names.formUnion(named)
        guard known.names.count > count else { return }
        try Meta.set(db, .named, known.names.sorted().joined(separator: "\n"))
    }

    /// Another history begins: what its server knows is not known.
    static func forget(_ db: Database) throws { try Meta.set(db, .named, nil as String?) }

    private static func line(_ entity: String, _ field: String) -> String { "\(entity)\t\(field)" }
}
