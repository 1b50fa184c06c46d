import ArgumentParser
internal import CSQLiteSettings

/// The program: one command a call, each in a file of its own under `Commands`.
@main
struct Boards: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "boards",
        abstract: "A Kanban board that works offline and syncs.",
        discussion: """
            Every command but `sync` works without a network: it reads and writes this device's own database.
            Exit status: 0 done, 1 failed or bad input, 2 wrong arguments; `sync` alone: 3 when something is unsent, set \
            aside or held, or the pull could not finish.
            """,
        subcommands: [
            ImportCommand.self, ReplayCommand.self, AddCommand.self, SetCommand.self, DeleteCommand.self,
            ShowCommand.self, SummaryCommand.self,
            StatusCommand.self, PendingCommand.self, CancelCommand.self, FailuresCommand.self, RetryCommand.self,
            DiscardCommand.self, ConflictsCommand.self, RestoreCommand.self, SyncCommand.self, ServeCommand.self,
            BackupCommand.self,
            DemoCommand.self,
        ])

    // Here so that they may stand before the command as well.
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        throw Problem.usage("Say a command; `boards --help` lists them.")
    }

    static func main() async {
        Streams.fill()
        // SQLite counts every allocation under one lock of the process, and nobody asks here. Only before its first use.
        _ = boards_sqlite_count_memory(0)
        guard let arguments = Program.arguments() else {
            Console.complain("An argument is not UTF-8.")
            Program.exit(2)
        }
        Program.exit(await Program.run(Self.self, arguments))
    }
}
