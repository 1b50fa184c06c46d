/// What a REST request with a key was answered, so that its repetition gets the same.
struct StoredReply: Sendable, Hashable {
    var status: Int
    var etag: String?
    var body: [UInt8]
    var digest: ContentDigest
}

/// Keys of REST requests, by account and device.
struct ReplyStore {
    let store: ServerStore

    func reply(device: DeviceContext, key: String) throws -> StoredReply? {
        try store.statements.first(
            "SELECT status, etag, body, first, second FROM reply WHERE device = ? AND key = ?", [device.row, key]
        ) { row in
            StoredReply(
                status: row[0], etag: row[1], body: Array((row[2] as String).utf8),
                digest: ContentDigest(
                    first: UInt64(bitPattern: row[3] as Int64), second: UInt64(bitPattern: row[4] as Int64)))
        }
    }

    /// Whether the key belongs to a change that came by `/api/sync`.
    func isUsedBySync(device: DeviceContext, key: String) throws -> Bool {
        let isRow = try store.statements.first(
            "SELECT 1 FROM outcome WHERE device = ? AND key = ?", [device.row, key]
        ) { _ in true }
        return try isRow ?? (OutcomeRuns(store: store).outcome(key, of: device) != nil)
    }

    func write(_ reply: StoredReply, device: inout DeviceContext, key: String, now: Int64) throws {
        if !device.usesREST {
            device.usesREST = true
            try store.statements.run("UPDATE device SET rest = 1 WHERE n = ?", [device.row])
        }
        try store.statements.run(
            """
            INSERT INTO reply(device, key, status, etag, body, first, second, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                device.row, key, reply.status, reply.etag, String(decoding: reply.body, as: UTF8.self),
                Int64(bitPattern: reply.digest.first), Int64(bitPattern: reply.digest.second), now,
            ])
    }
}
