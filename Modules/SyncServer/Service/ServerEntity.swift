/// One kind of record that the server keeps, and what it must know of it: nothing but names and parents.
///
/// Fields are not declared: the server keeps whatever it is sent (PROTOCOL.md, section 1).
public struct ServerEntity: Sendable, Hashable {
    /// That a field holds the id of another record.
    public struct Reference: Sendable, Hashable {
        /// The field's name on the wire (`idList`).
        public var field: String
        /// The other record's entity (`list`).
        public var entity: String

        public init(field: String, entity: String) {
            self.field = field
            self.entity = entity
        }
    }

    /// How a value that came as text in a query is read, for servers that are written to by `?field=value`.
    public enum QueryKind: String, Sendable, Hashable {
        case text, number, boolean, json
    }

    /// The name on the wire of `/api/sync` (`card`).
    public var name: String
    /// The name in REST paths (`cards`).
    public var collection: String
    /// The references that make a record go with another; the first with a value leads to the root.
    public var parents: [Reference]
    /// Fields that name another record and go with nothing: a server that makes its own ids puts its own in there, too.
    public var references: [Reference]
    /// Whether REST shows `dateLastActivity`.
    public var tracksActivity: Bool
    /// Fields whose query text is not text; others take the kind of the value they have.
    public var queryKinds: [String: QueryKind]

    public init(
        _ name: String, collection: String, parents: [Reference] = [], references: [Reference] = [],
        tracksActivity: Bool = false, queryKinds: [String: QueryKind] = [:]
    ) {
        self.name = name
        self.collection = collection
        self.parents = parents
        self.references = references
        self.tracksActivity = tracksActivity
        self.queryKinds = queryKinds
    }
}
