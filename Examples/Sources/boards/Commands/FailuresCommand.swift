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
        var blocked: [String: [String]] = [:]
        for failure in failures {
            let key = failure.queued.change.id
            blocked[key] = try await device.store.dependants(of: key)
        }
        if json {
            let list = failures.map { ChangeReport.json($0, waiting: blocked[$0.queued.change.id] ?? []) }
            Console.print(JSONText.text(.array(list)))
        } else if failures.isEmpty {
            Console.print("Nothing was set aside.")
        } else {
            let lines = failures.map { ChangeReport.line($0, waiting: blocked[$0.queued.change.id] ?? []) }
            Console.print(lines.joined(separator: "\n"))
        }
    }
}
