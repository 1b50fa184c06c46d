import ArgumentParser
import Ferry
import SyncCore

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts", abstract: "List the values that met others, newest first, with both and who won.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "One JSON value.")
    var json = false

    @Flag(help: "How often, by entity and field, who won, and how far numbers were apart.")
    var counts = false

    func run() async throws {
        let device = try await Device.open(global, for: .looking)
        guard !counts else {
            let figures = try await device.store.conflictFigures()
            if json {
                Console.print(JSONText.text(.array(figures.map { ChangeReport.json($0) })))
            } else if figures.isEmpty {
                Console.print("No value met another.")
            } else {
                Console.print(figures.map { ChangeReport.line($0) }.joined(separator: "\n"))
            }
            return
        }
        let conflicts = try await device.store.conflicts()
        if json {
            Console.print(JSONText.text(.array(conflicts.map { ChangeReport.json($0) })))
        } else if conflicts.isEmpty {
            Console.print("No value met another.")
        } else {
            Console.print(conflicts.map { ChangeReport.line($0) }.joined(separator: "\n"))
        }
    }
}
