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
        var isFirst = true
        // A part at a time: a queue may be much longer than what fits into the memory at once.
        while let here = place {
            let part = try await device.store.queued(from: here, limit: Device.part)
            place = part.next
            guard !part.changes.isEmpty else { break }
            if json {
                let texts = part.changes.map { JSONText.text(ChangeReport.json($0, wait)) }
                Console.write((isFirst ? "[" : ",") + texts.joined(separator: ","), isBeginning: isFirst)
            } else {
                Console.print(part.changes.map { ChangeReport.line($0) }.joined(separator: "\n"))
            }
            isFirst = false
        }
        if json {
            Console.write(isFirst ? "[]\n" : "]\n", isBeginning: isFirst)
        } else if isFirst {
            Console.print("Nothing waits to be sent.")
        } else if let sentence = wait.sentence {
            Console.print(sentence)
        }
    }
}
