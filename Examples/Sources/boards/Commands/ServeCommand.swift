import ArgumentParser
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve", abstract: "later")
    @OptionGroup var global: GlobalOptions
}
