import ArgumentParser
import Ferry

struct DiscardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard", abstract: "Give a change that was set aside up, with what needs it.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: ArgumentHelp("The change's key, as `failures` tells it.", valueName: "CHANGE"))
    var change: String

    func run() async throws {
        let device = try await Device.open(global)
        let change = change.lowercased()
        try await device.checkFailed(change)
        Console.print("Discarded: \(try await device.store.discard(change).joined(separator: ", ")).")
    }
}
