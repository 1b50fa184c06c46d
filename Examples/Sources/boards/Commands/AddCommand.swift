import ArgumentParser
import BoardsModel
import SyncCore

struct AddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Make a record on this device; prints its id.",
        discussion:
            "FIELD=VALUE sets a field, FIELD= sets the empty text. Example: boards add list idBoard=ID name=Done")

    @OptionGroup var global: GlobalOptions
    @Option(help: "The record's id; a new UUID if not given.")
    var id: String?
    @Argument(help: ArgumentHelp("board, list, card, …", valueName: "ENTITY"))
    var entity: String
    @Argument(help: ArgumentHelp("The fields.", valueName: "FIELD=VALUE"))
    var fields: [String]

    func run() async throws {
        let schema = try BoardEntities.schema()
        let entity = try Target.entity(entity, schema)
        let id = try id.map(Target.id)
        let values = try Assignment.values(of: fields, for: entity)
        let device = try await Device.open(global)
        let edits = Edits(records: device.records)
        Console.print(try await device.write { db in try edits.add(db, entity, id: id, values) })
    }
}
