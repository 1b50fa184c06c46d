import SyncCore

/// The roots that a device holds, each with its checkpoint, as its tables say.
struct HeldScopes {
    var asked: [RecordKey: Int64] = [:]
    /// Of these, those whose every name here is this device's own: to a server that makes ids such a scope is an unknown one, and empty.
    private(set) var unnamed: Set<RecordKey> = []
    /// Not asked for any more, and still here for what is unsent.
    var leaving: Set<RecordKey> = []
    /// Being read once more from 0; each with the version up to which it was here.
    private var returning: [RecordKey: Int64] = [:]

    /// Up to which version each root was brought here once: one that is read again does not fall.
    var reached: [RecordKey: Int64] { asked.merging(returning.filter { asked[$0.key] != nil }) { max($0, $1) } }

    /// `nil` for what is none.
    /// - Parameter named: the records of which the device knows what the server calls them.
    init?(json: String, _ ids: CanonicalIDs = CanonicalIDs(), named: Set<RecordKey> = []) throws {
        guard case .object(let members) = try FieldValue(json: json) else { return nil }
        asked = Self.versions(members["asked"], ids)
        if ids.areTwo, case .object(let roots)? = members["asked"] {
            let known = Set(roots.keys.map { Self.record($0) }.filter { ids.key($0) != $0 }.map(ids.key))
            unnamed = Set(asked.keys).subtracting(known).subtracting(named)
        }
        returning = Self.versions(members["returning"], ids)
        if case .array(let leaving)? = members["leaving"] {
            for case .string(let name) in leaving { self.leaving.insert(Self.key(name, ids)) }
        }
    }

    private static func versions(_ member: FieldValue?, _ ids: CanonicalIDs) -> [RecordKey: Int64] {
        guard case .object(let members)? = member else { return [:] }
        return members.reduce(into: [:]) { versions, member in
            guard case .int(let version) = member.value else { return }
            let root = key(member.key, ids)
            versions[root] = min(version, versions[root] ?? version)
        }
    }

    private static func key(_ name: String, _ ids: CanonicalIDs) -> RecordKey { ids.key(record(name)) }

    private static func record(_ name: String) -> RecordKey {
        let parts = name.split(separator: ":", maxSplits: 1).map(String.init)
        return RecordKey(parts.first ?? "", parts.count > 1 ? parts[1] : "")
    }
}

/// Under which root each of the server's records is, worked out from the records alone.
struct Roots {
    private let schema: Schema
    private let fields: [RecordKey: [String: FieldValue]]

    init(_ records: [ServerRecord], _ schema: Schema) {
        self.init(Dictionary(records.map { ($0.key, $0.fields) }, uniquingKeysWith: { $1 }), schema)
    }

    init(_ fields: [RecordKey: [String: FieldValue]], _ schema: Schema) {
        self.schema = schema
        self.fields = fields
    }

    /// `nil` where a record on the way up is not known, or says nothing of itself any more.
    func root(of record: RecordKey) -> RecordKey? {
        var place = record
        for _ in 0..<64 {
            guard let values = fields[place], let entity = schema[place.entity] else { return nil }
            guard let field = entity.parents.first, let parent = field.reference?.entity else { return place }
            guard case .string(let id)? = values[field.name] else { return nil }
            place = RecordKey(parent, id)
        }
        return nil
    }
}

/// What of the server's records a device is to have: all of them, or those under its roots.
struct Holding {
    private let facts: DeviceFacts
    private let roots: Roots?
    /// By the device's rows.
    private let shown: Roots?

    init(_ facts: DeviceFacts, _ server: [ServerRecord], _ schema: Schema) {
        self.facts = facts
        roots = facts.scopes == nil ? nil : Roots(server, schema)
        shown = facts.scopes == nil ? nil : Roots(facts.rows.rows, schema)
    }

    /// Up to which version the device has everything that stands where this record does; `nil` where that is not its to have.
    func checkpoint(of record: RecordKey) -> Int64? {
        guard let scopes = facts.scopes else { return facts.checkpoint }
        return roots?.root(of: record).flatMap { scopes.unnamed.contains($0) ? nil : scopes.asked[$0] }
    }

    /// Whether what left the root that a row stands under here was told up to this version: it may have died under another one, which is
    /// asked for since, and does not tell what died before (seed 43481).
    func isTold(of record: RecordKey, upTo version: Int64) -> Bool {
        guard let scopes = facts.scopes, let root = shown?.root(of: record) else { return true }
        return scopes.asked[root].map { $0 >= version } ?? true
    }
}
