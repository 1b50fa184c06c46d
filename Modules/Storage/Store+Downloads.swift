import GRDB
public import SyncCore

/// Who fetches a wish is remembered by the store that claimed it, and dies with it: a wish whose process was killed is claimed again. A
/// row is marked as claimed until it is asked for again, so that `finish` leaves what was asked for after the fetch had begun. Two
/// processes may fetch one wish at a time, which does no harm.
extension Store: DownloadLog {
    public func ask(_ request: DownloadRequest) throws(StoreFailure) {
        let now = now
        try perform("noting a download") { db in
            try db.cachedStatement(
                sql: """
                    INSERT INTO sync_download (scope, priority, asked)
                    VALUES (?1, ?2, max(?3, coalesce((SELECT max(asked) + 1 FROM sync_download), ?3)))
                    ON CONFLICT (scope) DO UPDATE SET priority = max(priority, excluded.priority), claimed = 0
                    """
            ).execute(arguments: [request.scope, request.priority, now])
        }
    }

    public func claim() throws(StoreFailure) -> DownloadRequest? {
        let fetched = fetchedDownloads
        let request = try perform("claiming a download") { db -> DownloadRequest? in
            let sql = "SELECT scope, priority FROM sync_download ORDER BY priority DESC, asked, scope"
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
            var request: DownloadRequest?
            while request == nil, let row = try rows.next() {
                if !fetched.contains(row[0]) { request = DownloadRequest(scope: row[0], priority: row[1]) }
            }
            guard let request else { return nil }
            try db.cachedStatement(sql: "UPDATE sync_download SET claimed = 1 WHERE scope = ?")
                .execute(arguments: [request.scope])
            return request
        }
        if let request { fetchedDownloads.insert(request.scope) }
        return request
    }

    public func finish(_ scope: String) throws(StoreFailure) {
        // Where this fails, too, it is fetched again.
        fetchedDownloads.remove(scope)
        try perform("finishing a download") { db in
            try db.cachedStatement(sql: "DELETE FROM sync_download WHERE scope = ? AND claimed = 1")
                .execute(arguments: [scope])
        }
    }

    public func withdraw(_ scope: String) { fetchedDownloads.remove(scope) }
}
