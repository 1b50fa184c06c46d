import GRDB
public import SyncCore

extension Store {
    /// The parent under which the server has a record, by its last word here: for paths that go through it (`RESTSender`, `parentID:`).
    ///
    /// That is also so for a record that was moved or deleted here: until the change is decided, the server has it where it was.
    /// - Parameters:
    ///   - record: by this device's id, or the server's.
    ///   - field: the parent's field; the first that is declared where none is said.
    /// - Returns: the parent's id as the server calls it; `nil` where none is known.
    public func parentID(of record: RecordKey, through field: String? = nil) throws(StoreFailure) -> String? {
        guard let entity = schema[record.entity],
            let parent = entity.parents.first(where: { field == nil || $0.name == field }),
            let target = parent.reference?.entity
        else { return nil }
        let local = RecordKey(record.entity, try localIDs(of: [record])[record] ?? record.id)
        let base = try look("looking for a parent") { db in
            Base.state(
                stored: try StoredRecord.read(db, local), changes: try Base.remaining(db, of: local, schema),
                row: try RowWriter(entity).read(db, local.id), entity: entity)
        }
        guard case .string(let id)? = base.fields[parent.name] else { return nil }
        let key = RecordKey(target, id)
        return try serverIDs(of: [key])[key] ?? id
    }
}
