internal import SyncCore

/// An answer, ready for any HTTP shell: status, headers, body.
public struct ServerReply: Sendable, Hashable {
    public var status: Int
    /// In order, each name once; `Content-Type` is among them where there is a body.
    public var headers: [Header]
    /// Plain bytes; the shell may compress them. Empty for 204 and 304.
    public var body: [UInt8] {
        get { tail.map { first + $0.bytes } ?? first }
        set { (first, tail) = (newValue, nil) }
    }
    /// The body up to its ``tail``; all of it, where it has none.
    public private(set) var first: [UInt8]
    /// The end of a body that is long; for a shell that packs bodies in two parts.
    public private(set) var tail: Tail?
    /// Why a 503 is one, in words, for the shell's log: what the file system or SQLite said. Never sent, and no part of what is compared.
    public var cause: String?

    /// The end of a body, which is the same for everybody who is told the same page: it may have been packed before it was
    /// asked for (``SyncService/readAhead(packing:)``).
    public struct Tail: Sendable, Hashable {
        /// Plain.
        public var bytes: [UInt8]
        /// What the shell's own packer made of ``bytes``; `nil` where it was not asked yet.
        public var packed: [UInt8]?
    }

    /// One header.
    public struct Header: Sendable, Hashable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public init(status: Int, headers: [Header] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        first = body
    }

    init(status: Int, headers: [Header], first: [UInt8], tail: Tail) {
        self.status = status
        self.headers = headers
        self.first = first
        self.tail = tail
    }

    /// How many bytes the body has.
    public var count: Int { first.count + (tail?.bytes.count ?? 0) }

    /// Whether both say the same, in however many parts.
    public static func == (one: ServerReply, other: ServerReply) -> Bool {
        one.status == other.status && one.headers == other.headers && one.body == other.body
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(status)
        hasher.combine(headers)
        hasher.combine(count)
    }

    /// The value of the header of that name, in any case of letters.
    public subscript(header name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

/// A request of PROTOCOL.md, section 1: whose it is, and its plain (already inflated) JSON.
public struct SyncCall: Sendable, Hashable {
    public var account: String
    public var body: [UInt8]

    public init(account: String, body: [UInt8]) {
        self.account = account
        self.body = body
    }
}

/// A request of PROTOCOL.md, section 2, as an HTTP shell hands it over.
public struct RESTRequest: Sendable, Hashable {
    /// `GET`, `HEAD`, `POST`, `PUT`, `DELETE`; others are answered with 405.
    public var method: String
    /// The path with its leading slash, still percent-encoded, without the query (`/1/cards/8f2e`).
    public var path: String
    /// What stands behind the question mark, still form-encoded.
    public var query: String
    /// `Idempotency-Key`, `If-Match`, `If-None-Match`, `Sync-Device`, `Content-Type`; others are not looked at.
    public var headers: [ServerReply.Header]
    /// Already inflated.
    public var body: [UInt8]

    public init(
        method: String, path: String, query: String = "", headers: [ServerReply.Header] = [], body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
    }

    /// Stream-safe, since it is taken apart and compared.
    subscript(header name: String) -> String? {
        let wanted = name.lowercased()
        return headers.first { $0.name.lowercased() == wanted }?.value.streamSafe
    }
}

/// Told after each commit: what an event stream passes on (PROTOCOL.md, section 3).
public struct CommitNotice: Sendable, Hashable {
    public var account: String
    public var version: Int64
    /// The scopes with a record of a new version, those that a record left included, in order.
    public var scopes: [String]

    /// How many scopes a notice names that stands for several; of more it names none, which says: all.
    public static let mostScopes = 256

    /// One notice for two of an account.
    func joined(with earlier: CommitNotice) -> CommitNotice {
        guard !scopes.isEmpty, !earlier.scopes.isEmpty else {
            return CommitNotice(account: account, version: max(version, earlier.version), scopes: [])
        }
        let all = Set(scopes).union(earlier.scopes)
        return CommitNotice(
            account: account, version: max(version, earlier.version),
            scopes: all.count > Self.mostScopes ? [] : all.sorted())
    }

    /// `{"currentSyncVersion":58,"scopes":["board:8f2e…"]}`.
    public var json: [UInt8] {
        var writer = JSONWriter(capacity: 96)
        writer.beginObject()
        writer.key("currentSyncVersion")
        writer.int(version)
        writer.key("scopes")
        writer.beginArray()
        for scope in scopes { writer.string(scope) }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}
