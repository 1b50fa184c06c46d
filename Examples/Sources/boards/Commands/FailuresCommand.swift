import ArgumentParser
import Ferry
import SyncCore

struct FailuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "failures", abstract: "List what was set aside, with its change, reason and payload.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "One JSON value.")
    var json = false

    func run() async throws {
        let device = try await Device.open(global, for: .looking)
        let failures = try await device.store.failures()
        let waiting = try await device.store.dependants(of: failures.map(\.queued.change.id))
        if json {
            let list = zip(failures, waiting).map { ChangeReport.json($0, waiting: $1) }
            Console.print(JSONText.text(.array(list)))
        } else if failures.isEmpty {
            Console.print("Nothing was set aside.")
        } else {
            let lines = zip(failures, waiting).map { ChangeReport.line($0, waiting: $1) }
            Console.print(lines.joined(separator: "\n"))
        }
    }
}
