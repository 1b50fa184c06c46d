import Foundation
import GRDB
import SyncCore

/// Where a file ended before SQLite opened it: amid a page it never does, but where the log has that page whole.
///
/// SQLite itself takes what is missing of the last page for zeros, and tells nobody.
struct FileEnd {
    private let length: Int
    private let hasLog: Bool

    init(_ path: String) {
        length = Self.size(path)
        hasLog = Self.size(path + "-wal") > 0
    }

    /// The page's size is asked for by SQLite: who opens the file beside it, and closes it again, takes its locks away.
    func check(_ read: Reading) throws(StoreFailure) {
        guard length > 0, !hasLog else { return }
        let page: Int
        do { page = try read { try Int.fetchOne($0, sql: "PRAGMA page_size") ?? 0 } } catch {
            throw StoreFailure(error, while: "checking the database")
        }
        guard page == 0 || length % page == 0 else {
            throw StoreFailure(kind: .corrupt, message: "The database is corrupt: it ends amid a page")
        }
    }

    /// Of a file; 0 where there is none.
    static func size(_ path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }
}
