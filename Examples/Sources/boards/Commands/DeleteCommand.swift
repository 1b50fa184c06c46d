import ArgumentParser
import BoardsModel

struct DeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete a record on this device; what is under it goes out of sight with it.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: ArgumentHelp("board, list, card, …", valueName: "ENTITY"))
    var entity: String
    @Argument(help: ArgumentHelp("The record's id.", valueName: "ID"))
    var id: String

    func run() async throws {
        let key = try Target.key(entity, id, BoardEntities.schema())
        let device = try await Device.open(global)
        let edits = Edits(records: device.records)
        try await device.write { db in try edits.delete(db, key) }
    }
}
