internal import Foundation
internal import GRDB

extension ServiceFailure {
    /// An error in words, for whoever runs the server: without the statement that met it, and without what a damaged file makes SQLite say.
    static func words(_ error: any Error) -> String {
        switch error {
        case let error as DatabaseError where [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode):
            "it is damaged, or no database (\(code(error))); put a backup of it back, and open that as restored"
        case let error as DatabaseError: error.message.map { "\(code(error)), \($0)" } ?? code(error)
        case let error as CocoaError: error.localizedDescription
        default: "\(error)"
        }
    }

    private static func code(_ error: DatabaseError) -> String { "SQLite error \(error.extendedResultCode.rawValue)" }
}
