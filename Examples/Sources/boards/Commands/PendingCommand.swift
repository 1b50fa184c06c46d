import ArgumentParser
import Ferry
import SyncCore

struct PendingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pending",
        abstract: "List what is queued and in flight, in order, with fields before and after, and when it goes next.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "One JSON value.")
    var json = false

    func run() async throws {
        let device = try await Device.open(global, for: .looking)
        let wait = QueueWait(try await device.store.summary())
        var place: QueuePlace? = QueuePlace()
        var list = ListOutput(isJSON: json)
        // A part at a time: a queue may be much longer than what fits into the memory at once.
        while let here = place {
            let part = try await device.store.queued(from: here, limit: Device.part)
            place = part.next
            list.tell(part.changes, json: { ChangeReport.json($0, wait) }, line: { ChangeReport.line($0) })
        }
        list.end(orElse: "Nothing waits to be sent.")
        if !json, !list.isEmpty, let sentence = wait.sentence { Console.print(sentence) }
    }
}
