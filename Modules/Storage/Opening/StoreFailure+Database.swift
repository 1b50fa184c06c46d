import GRDB
import SyncCore

extension StoreFailure {
    /// The failure that an error of GRDB's, SQLite's or the app's is; one that is a failure already stays as it is.
    init(_ error: any Error, while doing: String) {
        if let failure = error as? StoreFailure {
            self = failure
            return
        }
        guard let error = error as? DatabaseError else {
            self.init(kind: .unexpected, message: "\(doing): \(error)")
            return
        }
        let code = Int(error.extendedResultCode.rawValue)
        let kind = Self.kind(error.resultCode)
        let text = kind == .busy ? "another process has the database locked" : error.message ?? "SQLite error \(code)"
        // A broken statement is a bug, and is of no use without its text.
        let sql = error.resultCode == .SQLITE_ERROR ? error.sql.map { " in: \($0)" } ?? "" : ""
        self.init(kind: kind, message: "\(doing): \(text)\(sql)", code: code)
    }

    private static func kind(_ code: ResultCode) -> Kind {
        switch code {
        case .SQLITE_BUSY, .SQLITE_LOCKED: .busy
        case .SQLITE_FULL: .full
        case .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_PROTOCOL, .SQLITE_NOLFS: .io
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: .corrupt
        case .SQLITE_READONLY: .readOnly
        case .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG, .SQLITE_RANGE: .invalid
        case .SQLITE_INTERRUPT, .SQLITE_ABORT: .io
        default: .unexpected
        }
    }
}
