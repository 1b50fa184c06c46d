import ArgumentParser
import BoardsModel
import SyncCore

struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Do a Trello board export's actions again as local edits, oldest first.",
        discussion:
            "A board or list that is only mentioned is made with that name; unknown kinds are counted, and skipped.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "Print the counts as one JSON value.")
    var json = false
    @Argument(help: ArgumentHelp("The export, JSON as Trello makes it.", valueName: "FILE"))
    var file: String

    func run() async throws {
        let schema = try BoardEntities.schema()
        let plan = try ReplayPlan(BoardExport(JSONText.value(ofFile: file)), schema: schema)
        let device = try await Device.open(global)
        let replayer = Replayer(records: device.records)
        let report = try await device.write { db in try replayer.run(db, plan) }
        Console.print(json ? JSONText.text(report.json) : report.sentence)
    }
}

extension Replayer.Report {
    var sentence: String {
        var text = "Replayed \(replayed) actions: \(created) records created, \(updated) edits, \(deleted) deleted"
        if mentioned > 0 { text += ", \(mentioned) created because they were mentioned" }
        text += "; skipped \(withoutEffect) without effect here, \(unknown.values.reduce(0, +)) of unknown kinds"
        let kinds = unknown.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        return text + (kinds.isEmpty ? "." : " (\(kinds.joined(separator: ", "))).")
    }

    var json: FieldValue {
        [
            "replayed": .int(Int64(replayed)), "created": .int(Int64(created)), "updated": .int(Int64(updated)),
            "deleted": .int(Int64(deleted)), "mentioned": .int(Int64(mentioned)),
            "withoutEffect": .int(Int64(withoutEffect)),
            "unknown": .object(unknown.mapValues { .int(Int64($0)) }),
        ]
    }
}
