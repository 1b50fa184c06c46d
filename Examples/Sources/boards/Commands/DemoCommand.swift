import ArgumentParser
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "demo", abstract: "later")
    @OptionGroup var global: GlobalOptions
}
