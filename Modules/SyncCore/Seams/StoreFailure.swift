/// Why the local database did not do what it was asked; nothing of the call took effect.
public struct StoreFailure: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Another connection holds the file's lock: try again.
        case busy
        /// No space left: try again once there is some; reads work.
        case full
        /// The disk failed or the file is locked by the system: try again later; not corruption.
        case io
        /// The file is not a usable database.
        case corrupt
        /// The file cannot be written.
        case readOnly
        /// A constraint, or a value of another type than declared.
        case invalid
        /// No such record or change.
        case notFound
        /// The file is another account's, or a newer program's, or another process syncs it.
        case refused
        /// A bug of ours or a broken statement.
        case unexpected
    }

    /// What to do about it.
    public enum Advice: Sendable, Hashable {
        case retry, giveUp, askUser
    }

    public var kind: Kind
    /// What was being done and what was said, in words.
    public var message: String
    /// SQLite's extended result code, where there is one.
    public var code: Int?

    public init(kind: Kind, message: String, code: Int? = nil) {
        self.kind = kind
        self.message = message
        self.code = code
    }

    public var advice: Advice {
        switch kind {
        case .busy, .io: .retry
        case .full, .corrupt, .readOnly, .refused: .askUser
        case .invalid, .notFound, .unexpected: .giveUp
        }
    }

    public var description: String { message }
}
