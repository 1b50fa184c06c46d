import GRDB
public import SyncCore

extension Store: DownloadLog {
    public func ask(_ request: DownloadRequest) throws(StoreFailure) {
        let now = now
        try perform("noting a download") { db in
            try db.cachedStatement(
                sql: """
                    INSERT INTO sync_download (scope, priority, asked)
                    VALUES (?1, ?2, max(?3, coalesce((SELECT max(asked) + 1 FROM sync_download), ?3)))
                    ON CONFLICT (scope) DO UPDATE SET priority = max(priority, excluded.priority)
                    """
            ).execute(arguments: [request.scope, request.priority, now])
        }
    }

    public func claim() throws(StoreFailure) -> DownloadRequest? {
        try perform("claiming a download") { db in
            let sql = """
                SELECT scope, priority FROM sync_download WHERE claimed = 0 ORDER BY priority DESC, asked, scope LIMIT 1
                """
            guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)) else { return nil }
            let request = DownloadRequest(scope: row[0], priority: row[1])
            try db.cachedStatement(sql: "UPDATE sync_download SET claimed = 1 WHERE scope = ?")
                .execute(arguments: [request.scope])
            return request
        }
    }

    public func finish(_ scope: String) throws(StoreFailure) {
        try perform("finishing a download") { db in
            try db.cachedStatement(sql: "DELETE FROM sync_download WHERE scope = ?").execute(arguments: [scope])
        }
    }

    public func withdraw(_ scope: String) throws(StoreFailure) {
        try perform("withdrawing a download") { db in
            try db.cachedStatement(sql: "UPDATE sync_download SET claimed = 0 WHERE scope = ?")
                .execute(arguments: [scope])
        }
    }
}
