import Orchestrator
import Storage
import SyncCore
import Transport

/// An app's whole set-up: three entities, a database and a server.
func makeEngine(file: String, server: String, http: any HTTPTransport) throws -> (store: Store, engine: SyncEngine) {
    let schema = try Schema([
        EntitySchema("project", fields: [.text("name"), .text("color")]),
        EntitySchema(
            "task",
            fields: [
                .parent("idProject", "project"), .text("name", required: true), .boolean("done"), .date("due"),
                .real("pos"), .json("tags", rule: .union),
            ]),
        EntitySchema("note", fields: [.parent("idTask", "task"), .text("text", rule: .check)]),
    ])
    let store = try Store(path: file, schema: schema)
    let exchange = try BatchExchange(endpoint: server, http: http)
    return (store, SyncEngine(store: store, exchange: exchange))
}
