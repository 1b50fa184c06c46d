import SyncCore

/// What a command line names: an entity, a record.
enum Target {
    /// The declared entity of this name.
    static func entity(_ name: String, _ schema: Schema) throws(Problem) -> EntitySchema {
        guard let entity = schema[name] else { throw unknownEntity(name, schema) }
        return entity
    }

    /// The record of this entity and id; UUIDs in lower case.
    static func key(_ entity: String, _ id: String, _ schema: Schema) throws(Problem) -> RecordKey {
        RecordKey(try Self.entity(entity, schema).name, try Self.id(id))
    }

    /// An id as the contract allows it; UUIDs in lower case.
    static func id(_ text: String) throws(Problem) -> String {
        guard let id = RecordID.read(text) else {
            throw Problem("“\(text)” cannot be an id: 1 to 128 letters, digits, “-”, “_”, “.” and “:” can.")
        }
        return id
    }
}
