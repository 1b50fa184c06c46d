internal import BoardsModel
internal import SyncCore
internal import SyncServer

/// The boards' entities as the store knows them: names, parents, and how text from a query is read.
enum BoardsStore {
    /// Entities whose REST records carry `dateLastActivity` (PROTOCOL.md, section 2).
    private static let withActivity: Set<String> = ["board", "card"]

    static let entities: [ServerEntity] = BoardEntities.all.map { entity in
        ServerEntity(
            entity.name, collection: entity.name + "s",
            parents: entity.parents.compactMap { field in
                field.reference.map { ServerEntity.Reference(field: field.name, entity: $0.entity) }
            },
            tracksActivity: withActivity.contains(entity.name),
            queryKinds: Dictionary(
                uniqueKeysWithValues: entity.fields.compactMap { field in kind(of: field).map { (field.name, $0) } }))
    }

    private static func kind(of field: FieldSchema) -> ServerEntity.QueryKind? {
        switch field.kind {
        case .integer, .real: .number
        case .boolean: .boolean
        case .json: .json
        case .text, .date, .data: nil
        }
    }

    static func configuration(_ options: ServerOptions) -> ServerConfiguration {
        var limits = ServerLimits()
        limits.requestBytes = options.connections.bodyBytes
        return ServerConfiguration(
            entities: entities, limits: limits, synchronous: options.isRelaxed ? .normal : .full,
            makesIDs: options.makesIDs, isRestored: options.isRestored)
    }
}
