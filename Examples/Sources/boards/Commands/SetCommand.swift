import ArgumentParser
import BoardsModel
import SyncCore

struct SetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Change fields of a record on this device.",
        discussion: "FIELD=VALUE sets a field, FIELD= sets the empty text, FIELD:null clears.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: ArgumentHelp("board, list, card, …", valueName: "ENTITY"))
    var entity: String
    @Argument(help: ArgumentHelp("The record's id.", valueName: "ID"))
    var id: String
    @Argument(help: ArgumentHelp("The fields.", valueName: "FIELD=VALUE"))
    var fields: [String]

    func run() async throws {
        let schema = try BoardEntities.schema()
        let entity = try Target.entity(entity, schema)
        let key = RecordKey(entity.name, try Target.id(id))
        let values = try Assignment.values(of: fields, for: entity)
        let device = try await Device.open(global)
        let edits = Edits(records: device.records)
        try await device.write { db in try edits.set(db, key, entity, values) }
    }
}
