import ArgumentParser
import Ferry

struct RetryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Put a change that was set aside back into its place; prints the key it has now.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: ArgumentHelp("The change's key, as `failures` tells it.", valueName: "CHANGE"))
    var change: String

    func run() async throws {
        let device = try await Device.open(global)
        let change = change.lowercased()
        try await device.checkFailed(change)
        Console.print(try await device.store.retry(change))
    }
}
