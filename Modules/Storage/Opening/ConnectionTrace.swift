import GRDB
internal import GRDBSQLite

/// What SQLite tells of a connection that writes: that it begins to close and is gone, and each statement, where a test asks.
///
/// A connection has one trace: who sets another (`Database.trace` does) takes the place of this one, which hears of the end only.
final class ConnectionTrace {
    private let closing: LogLength.Closing?
    private let onStatement: ((() -> String) -> Void)?

    /// - Parameters:
    ///   - closing: hears of the closing.
    ///   - onStatement: hears of each statement before it runs, on the connection's thread.
    init(closing: LogLength.Closing?, onStatement: (@Sendable (() -> String) -> Void)?) {
        (self.closing, self.onStatement) = (closing, onStatement)
    }

    /// Hears of the connection until it is closed; SQLite keeps this so long.
    func begin(on db: Database) {
        guard closing != nil || onStatement != nil else { return }
        let context = Unmanaged.passRetained(self).toOpaque()
        let events = SQLITE_TRACE_CLOSE | (onStatement == nil ? 0 : SQLITE_TRACE_STMT)
        // A process may end while the connection that it let go of takes the log in, or between the log's end and the note of it.
        _ = sqlite3_trace_v2(  // kept: what fails costs a wrong alarm then, no more
            db.sqliteConnection, UInt32(events),
            { event, context, _, text in
                guard let context else { return SQLITE_OK }
                let trace = Unmanaged<ConnectionTrace>.fromOpaque(context).takeUnretainedValue()
                if event == SQLITE_TRACE_CLOSE {
                    trace.closing?.begin()
                } else if let text {
                    trace.onStatement? { String(cString: text.assumingMemoryBound(to: CChar.self)) }
                }
                return SQLITE_OK
            }, context)
        // SQLite lets go of a connection's functions after its files, whoever closed it, and however late.
        _ = sqlite3_create_function_v2(  // kept: what fails ends the closing at once, and the log is found as it is
            db.sqliteConnection, "sync_log_closing", 0, SQLITE_UTF8, context,
            { context, _, _ in sqlite3_result_null(context) },
            nil, nil,
            { context in
                guard let context else { return }
                Unmanaged<ConnectionTrace>.fromOpaque(context).takeRetainedValue().closing?.end()
            })
    }
}
