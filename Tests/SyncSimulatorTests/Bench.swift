import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// A store in a folder of its own, and what the checks are told of it: the app's writes go into a ledger as they are
/// made.
final class Bench {
    let store: Store
    let schema: Schema
    var ledger = Ledger()
    private let path = NSTemporaryDirectory() + "bench-\(UUID().uuidString)"

    init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        schema = try Schema(SimulationSchema.entities)
        store = try Store(path: path + "/device.sqlite", schema: schema)
    }

    /// Closes the file and removes the folder.
    func close() throws {
        try store.database.close()
        try FileManager.default.removeItem(atPath: path)
    }

    func sql(_ sql: String) throws { try store.database.write { try $0.execute(sql: sql) } }

    /// A board `b`, a list `l` and a card `c` of others'.
    func holdCard() throws {
        try sql(
            """
            INSERT INTO board (id, name) VALUES ('b', 'B');
            INSERT INTO list (id, idBoard, name) VALUES ('l', 'b', 'L');
            INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'C');
            DELETE FROM sync_change;
            """)
    }

    /// The app runs the SQL, which makes one change; the ledger hears what it wrote, and over what.
    @discardableResult
    func write(
        _ sql: String, _ values: [String: FieldValue] = [:], over before: [String: FieldValue] = [:]
    ) throws -> String {
        try self.sql(sql)
        var made = try #require(try store.database.read { try Ledger.changes($0, above: 0) }.last)
        made.isOriginal = true
        (made.values, made.before) = (values, before)
        ledger.add(made)
        return made.key
    }

    func facts() throws -> DeviceFacts {
        var parsed: [String: FieldValue] = [:]
        return try store.database.read { try DeviceFacts($0, schema, &parsed) }
    }

    /// What is lost at this moment; the ledger takes over what the queue holds.
    @discardableResult
    func look(accepted: Set<String> = []) throws -> [Ledger.Entry] {
        try ledger.look(facts(), accepted: accepted, taken: [], refused: [])
    }

    /// What all checks of a device's tables find.
    func found(_ server: [ServerRecord] = [], accepted: Set<String> = []) throws -> [String] {
        try Invariants(
            schema: schema, device: 0, facts: facts(), ledger: ledger, lost: [], refused: [], accepted: accepted,
            server: server, serverEpoch: "e"
        ).check().map { "\($0.0) \($0.1)" }
    }
}

/// A change of the record `b`, with the sequence for its key: `k-3`.
func change(
    _ sequence: Int64, _ operation: SyncCore.Operation = .update, of record: RecordKey = RecordKey("board", "b"),
    at stamp: UInt64 = 1, fields: [String: FieldDelta] = [:]
) -> Change {
    Change(
        id: "k-\(sequence)", sequence: sequence, record: record, operation: operation,
        stamp: Stamp(milliseconds: stamp, counter: 0), fields: fields)
}

/// What the app wrote in that change.
func entry(_ change: Change, _ values: [String: FieldValue] = [:], over before: [String: FieldValue] = [:])
    -> Ledger.Entry
{
    Ledger.Entry(
        key: change.id, sequence: change.sequence, record: change.record, operation: change.operation,
        stamp: change.stamp, values: values, before: before, isOriginal: true)
}
