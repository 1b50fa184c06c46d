import ArgumentParser
import Ferry
import SyncCore

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Take a queued change back, with what needs it.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: ArgumentHelp("The change's key, as `pending` tells it.", valueName: "CHANGE"))
    var change: String

    func run() async throws {
        let device = try await Device.open(global)
        let change = change.lowercased()
        try await device.checkQueued(change)
        switch try await device.store.cancel(change) {
        case .cancelled(let keys):
            Console.print("Cancelled before it was sent: \(keys.joined(separator: ", ")).")
        case .inverse(let key):
            Console.print("It was sent, and has no answer yet: its inverse goes after it, as change \(key).")
        case .tooLate:
            throw Problem("Too late: change \(change) is on its way, and its fate is the server's.")
        }
    }
}
