import ArgumentParser
struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "sync", abstract: "later")
    @OptionGroup var global: GlobalOptions
}
