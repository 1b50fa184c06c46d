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
        let queued = try await device.store.queued()
        let wait = QueueWait(try await device.store.summary())
        if json {
            Console.print(JSONText.text(.array(queued.map { ChangeReport.json($0, wait) })))
        } else if queued.isEmpty {
            Console.print("Nothing waits to be sent.")
        } else {
            Console.print(queued.map { ChangeReport.line($0) }.joined(separator: "\n"))
            if let sentence = wait.sentence { Console.print(sentence) }
        }
    }
}
