/// Why a service cannot start or end, or a backup cannot be made. None of these is cured by trying again at once.
public enum ServiceFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// Another server has the file. Stop that one, or ask the user.
    case fileInUse(path: String)
    /// The file has another name, a hard link: what stands in the log beside one name is missing under the other. Ask the user.
    case severalNames(path: String)
    /// The file was written by a later version of this program. Ask the user.
    case madeByLaterVersion(path: String)
    /// The entities do not fit together; a mistake in the program.
    case badConfiguration(String)
    /// The file system or SQLite refused. `reason` is what it said.
    case storage(path: String, reason: String)
    /// A backup must not overwrite what is there.
    case targetExists(path: String)
    /// The service was closed before.
    case closed

    public var description: String {
        switch self {
        case .fileInUse(let path): "another server has \(path) open"
        case .severalNames(let path):
            "the file \(path) has another name, a hard link; a server's database has one name only: remove the one not needed"
        case .madeByLaterVersion(let path): "the file \(path) was written by a later version of this server"
        case .badConfiguration(let reason): "the configuration is wrong: \(reason)"
        case .storage(let path, let reason): "the file \(path): \(reason)"
        case .targetExists(let path): "the file \(path) exists already"
        case .closed: "the server is closed"
        }
    }
}
