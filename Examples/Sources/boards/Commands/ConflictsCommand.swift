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
        var list = ListOutput(isJSON: json)
        var oldest = Int64.max
        while true {
            let part = try await device.store.conflicts(before: oldest, limit: Device.part)
            list.tell(part, json: { ChangeReport.json($0) }, line: { ChangeReport.line($0) })
            guard let last = part.last else { break }
            oldest = last.number
        }
        list.end(orElse: "No value met another.")
    }
}
