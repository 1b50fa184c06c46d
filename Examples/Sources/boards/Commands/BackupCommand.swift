import ArgumentParser
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "backup", abstract: "later")
    @OptionGroup var global: GlobalOptions
}
