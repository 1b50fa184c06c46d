import ArgumentParser
import Ferry

struct RetryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Put a change that was set aside back into its place; prints the key it has now.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "All that were set aside, the oldest first; prints a key a line.")
    var all = false
    @Argument(help: ArgumentHelp("The change's key, as `failures` tells it.", valueName: "CHANGE"))
    var change: String?

    func validate() throws {
        guard (change == nil) == all else { throw ValidationError("Say one change's key, or --all.") }
    }

    func run() async throws {
        let device = try await Device.open(global)
        guard let change = change?.lowercased() else {
            for key in try await UploadQueue(log: device.store).retryAll() { Console.print(key) }
            return
        }
        try await device.checkFailed(change)
        Console.print(try await device.store.retry(change))
    }
}
