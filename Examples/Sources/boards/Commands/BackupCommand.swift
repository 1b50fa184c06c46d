import ArgumentParser
import BoardsServer

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy a server's database, also while the server runs on it.",
        discussion: "A server that is started on the copy begins a new epoch, so that devices find what is missing.")

    @OptionGroup var global: GlobalOptions
    @Option(help: ArgumentHelp("The server's database.", valueName: "FILE"))
    var database: String
    @Option(help: ArgumentHelp("The copy; nothing may be there yet.", valueName: "FILE"))
    var to: String

    func run() async throws {
        do {
            try ReferenceServer.backup(database: database, to: to)
        } catch {
            throw Problem(error.description)
        }
    }
}
