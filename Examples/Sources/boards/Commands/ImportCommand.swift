import ArgumentParser
import BoardsModel
import SyncCore

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Take over a Trello board export's final state; nothing is sent.",
        discussion: "Records that exist are skipped. Prints how many were made and skipped.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "Print the counts as one JSON value.")
    var json = false
    @Argument(help: ArgumentHelp("The export, JSON as Trello makes it.", valueName: "FILE"))
    var file: String

    func run() async throws {
        let schema = try BoardEntities.schema()
        let state = try FinalState(BoardExport(JSONText.value(ofFile: file)), schema: schema)
        let device = try await Device.open(global)
        let importer = Importer(records: device.records)
        let report = try await device.write { db in try importer.run(db, state) }
        Console.print(json ? JSONText.text(report.json(schema)) : report.sentence(schema))
    }
}

extension Importer.Report {
    func sentence(_ schema: Schema) -> String {
        let counts = schema.entities.compactMap { entity in
            made[entity.name].map { "\($0) \($0 == 1 ? entity.name : entity.name + "s")" }
        }
        var text = "Imported \(counts.isEmpty ? "nothing" : counts.joined(separator: ", "))"
        text += "; skipped \(present) that exist already"
        if orphans > 0 { text += ", \(orphans) whose parent is not in the export" }
        return text + "."
    }

    func json(_ schema: Schema) -> FieldValue {
        var counts: [String: FieldValue] = [:]
        for entity in schema.entities { counts[entity.name] = .int(Int64(made[entity.name] ?? 0)) }
        return [
            "imported": .object(counts), "skipped": .int(Int64(present)), "withoutParent": .int(Int64(orphans)),
        ]
    }
}
