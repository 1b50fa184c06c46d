import ArgumentParser
import Foundation

/// What every command takes, before or after its name.
struct GlobalOptions: ParsableArguments {
    @Option(help: "The folder of this device's database; made on demand. Else $BOARDS_DATA, else ~/.boards.")
    var data: String?
    @Option(help: "The server to sync with, such as http://127.0.0.1:8080. Else $BOARDS_SERVER.")
    var server: String?
    @Option(help: "The token that the server knows this account by. Else $BOARDS_TOKEN; none if neither is given.")
    var token: String?

    func validate() throws {
        if data == "" { throw ValidationError("--data needs a folder's name.") }
        // Also where nothing is sent: what is wrong in one command is wrong in each.
        do { _ = try bearer() } catch { throw ValidationError(error.sentence) }
    }

    /// The folder of the database.
    var folder: String {
        if let data { return data }
        if let data = Self.environment("BOARDS_DATA") { return data }
        // As in a shell; Foundation asks the system's list of users instead.
        return (Self.environment("HOME") ?? NSHomeDirectory()) + "/.boards"
    }

    /// The server's address.
    /// - Throws: a ``Problem`` with exit code 2 if none was given, or it is no address.
    func serverURL() throws(Problem) -> URL {
        guard let text = server ?? Self.environment("BOARDS_SERVER") else {
            throw .usage("Say which server to sync with: --server URL, or $BOARDS_SERVER.")
        }
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme),
            let host = url.host(), !host.isEmpty
        else { throw .usage("“\(text)” is no server's address; it looks like http://127.0.0.1:8080.") }
        return url
    }

    /// The token, if there is one.
    /// - Throws: a ``Problem`` with exit code 2 for one that no request can carry; it is not repeated in the sentence.
    func bearer() throws(Problem) -> String? {
        guard let token = token ?? Self.environment("BOARDS_TOKEN") else { return nil }
        guard token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw .usage("The token is none: a token has visible ASCII characters alone, without spaces.")
        }
        return token
    }

    private static func environment(_ name: String) -> String? {
        guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else { return nil }
        return value
    }
}
