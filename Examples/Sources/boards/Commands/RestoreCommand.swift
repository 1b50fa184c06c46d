import ArgumentParser
import Ferry

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Write a value that lost again, as a new change.",
        discussion: "The conflict stays in the list. What a server's older history lost is written again with --lost.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "Everything that was in step and that a server restored from a backup does not have.")
    var lost = false
    @Argument(help: ArgumentHelp("The conflict's number, as `conflicts --json` tells it.", valueName: "NUMBER"))
    var number: Int64?

    func validate() throws {
        guard lost == (number == nil) else { throw ValidationError("Say the number of a conflict, or --lost.") }
    }

    func run() async throws {
        let device = try await Device.open(global)
        guard let number else {
            let count = try await device.store.restoreLost()
            return Console.print("Written again: \(count) \(count == 1 ? "record" : "records").")
        }
        let record = try await device.store.restoreLoser(number)
        Console.print("Written again: \(record.entity) \(record.id).")
    }
}
