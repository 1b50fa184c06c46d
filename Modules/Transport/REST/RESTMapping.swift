/// How an entity's records stand on a REST server (PROTOCOL.md, section 2).
public struct RESTMapping: Sendable, Hashable {
    /// How changed fields are sent.
    public enum UpdateForm: Sendable, Hashable {
        /// As a JSON body.
        case json
        /// As a form-encoded query, where the API wants it so.
        case query
    }

    /// A parent through whose path its children are reached: `/1/checklists/{idChecklist}/checkItems/{id}`.
    public struct Parent: Sendable, Hashable {
        /// The parent's collection (`checklists`).
        public var collection: String
        /// The child's field that holds the parent's id (`idChecklist`).
        public var field: String

        public init(collection: String, field: String) {
            self.collection = collection
            self.field = field
        }
    }

    /// The collection in the path (`cards`).
    public var collection: String
    public var parent: Parent?
    /// What stands in front of the collection (`/1`).
    public var prefix: String
    public var updates: UpdateForm
    /// Whether the API uses `If-Match`: then a change over a base that has moved on is a conflict.
    public var usesIfMatch: Bool
    /// Whether an empty answer to a create or an update is a success; to a delete it always is.
    public var answersEmpty: Bool
    /// Whether the server gives ids of its own to what is created.
    public var serverMakesIDs: Bool
    /// The members that hold a record's id and version.
    public var idMember: String
    public var versionMember: String
    /// The member that holds an error's code in plain JSON, for a server that knows no problem+json. Without proof that
    /// the server itself refused, a refusal is foreign.
    public var errorCodeMember: String?

    public init(
        collection: String, parent: Parent? = nil, prefix: String = "/1", updates: UpdateForm = .json,
        usesIfMatch: Bool = true, answersEmpty: Bool = false, serverMakesIDs: Bool = false, idMember: String = "id",
        versionMember: String = "version", errorCodeMember: String? = nil
    ) {
        self.collection = collection
        self.parent = parent
        self.prefix = prefix
        self.updates = updates
        self.usesIfMatch = usesIfMatch
        self.answersEmpty = answersEmpty
        self.serverMakesIDs = serverMakesIDs
        self.idMember = idMember
        self.versionMember = versionMember
        self.errorCodeMember = errorCodeMember
    }
}
