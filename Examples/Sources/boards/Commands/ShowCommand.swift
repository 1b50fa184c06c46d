import ArgumentParser
import BoardsModel
import SyncCore

struct ShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Print the records of this device, a line of JSON each.",
        discussion: "Sorted by entity and id, keys sorted: two devices in sync print the same bytes.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "JSON lines; this is the form without the flag, too.")
    var json = false
    @Argument(help: ArgumentHelp("Only records of this entity.", valueName: "ENTITY"))
    var entity: String?
    @Argument(help: ArgumentHelp("Only the record of this id.", valueName: "ID"))
    var id: String?

    func run() async throws {
        let schema = try BoardEntities.schema()
        let entity = try entity.map { try Target.entity($0, schema) }
        let id = try id.map(Target.id)
        let device = try await Device.open(global, for: .looking)
        let records = device.records
        let found = try await device.read { db in
            guard let entity, let id else { return try records.fetchAll(db, only: entity) }
            let key = RecordKey(entity.name, id)
            guard let fields = try records.fetch(db, key) else { throw Edits.missing(key) }
            return [LocalRecord(key, fields)]
        }
        Console.write(Canonical.lines(found, schema: schema))
    }
}
