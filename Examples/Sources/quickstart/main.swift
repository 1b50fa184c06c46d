import Ferry
import Foundation
import GRDB

guard CommandLine.arguments.count == 3 else {
    FileHandle.standardError.write(Data("usage: quickstart DATABASE SERVER-URL\n".utf8))
    exit(2)
}

// What syncs: an entity and its fields. The table is made from them, or it is your app's own.
let board = EntitySchema("board", fields: [.text("name"), .text("desc"), .boolean("closed")])
let store = try Store(path: CommandLine.arguments[1], schema: Schema([board]))
// Read and write your own tables with plain GRDB or SQL, with or without a network.
try store.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b-1', 'Garden')") }
// Bring every change to the server and every change of others here, in order, once; `run()` does so by itself.
let server = try BatchExchange(endpoint: CommandLine.arguments[2], http: AsyncHTTPClientTransport())
let summary = try await SyncEngine(store: store, exchange: server).sync(for: .seconds(30))
print("sent \(summary.report.acknowledged), received \(summary.report.received), in step: \(summary.isInStep)")
await server.close()
