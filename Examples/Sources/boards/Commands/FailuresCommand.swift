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
        var place: FailurePlace? = FailurePlace()
        var list = ListOutput(isJSON: json)
        while let here = place {
            let part = try await device.store.failures(from: here, limit: Device.part)
            place = part.next
            let waiting = try await device.store.dependants(of: part.failures.map(\.queued.change.id))
            list.tell(
                Array(zip(part.failures, waiting)), json: { ChangeReport.json($0, waiting: $1) },
                line: { ChangeReport.line($0, waiting: $1) })
        }
        list.end(orElse: "Nothing was set aside.")
    }
}
