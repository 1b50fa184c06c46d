import Foundation
import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// A file of a test's own, taken away with its folder.
final class TestFile {
    let folder: URL
    var path: String { folder.appendingPathComponent("boards.sqlite").path }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("storage-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    /// The first bytes are nobody's any more; the rest stays.
    func breakHeader() throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try handle.write(contentsOf: Data(repeating: 0x55, count: 16))
        try handle.close()
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch { Issue.record(error) }
    }
}

/// Runs what it is given where it is given it: for a store that one task alone asks.
final class Inline: SerialExecutor {
    func enqueue(_ job: UnownedJob) { job.runSynchronously(on: asUnownedSerialExecutor()) }
}

/// Boards, lists, cards: one parent each; a card also refers to another card, which is no parent.
func boardSchema(refusal: RefusalRule = .revert) throws -> Schema {
    try Schema([
        EntitySchema("board", fields: [.text("name", required: true), .boolean("closed")]),
        EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board"), .real("pos")]),
        EntitySchema(
            "card", refusal: refusal,
            fields: [
                .text("name"), .text("desc", rule: .check), .parent("idList", "list"), .real("pos"),
                .boolean("closed"), .date("due"), .integer("votes", rule: .sum), .json("labels", rule: .union),
                .data("cover"), .reference("idTwin", "card"),
            ]),
    ])
}

/// A store of a test's own, with fixed time and keys that follow from a seed.
struct Fixture {
    let file: TestFile
    let store: Store
    static let epoch = "e-1"

    /// - Parameters:
    ///   - wall: the time of day.
    ///   - clock: by which slices are measured; by default it stands still, so that none is parted.
    init(
        _ schema: Schema? = nil, file: TestFile? = nil, seed: Int64 = 7, wall: any WallClock = FixedClock(),
        clock: any _Concurrency.Clock<Duration> = VirtualClock()
    ) throws {
        self.file = try file ?? TestFile()
        store = try Store(
            path: self.file.path, schema: schema ?? boardSchema(),
            configuration: StoreConfiguration(
                clock: wall, monotonicClock: clock, keySeed: seed, fixesTriggerClock: true))
    }

    /// Runs SQL as the app does.
    func sql(_ sql: String, _ arguments: StatementArguments = []) throws {
        try store.database.write { try $0.execute(sql: sql, arguments: arguments) }
    }

    func rows(_ sql: String, _ arguments: StatementArguments = []) throws -> [Row] {
        try store.database.read { try Row.fetchAll($0, sql: sql, arguments: arguments) }
    }

    func text(_ sql: String) throws -> String? { try store.database.read { try String.fetchOne($0, sql: sql) } }
    func int(_ sql: String) throws -> Int? { try store.database.read { try Int.fetchOne($0, sql: sql) } }

    /// How many changes the store counts.
    func queued() throws -> Int { try store.database.read { try ChangeRows.queued($0) } }

    /// The queue as text: `create card c1 {…}`, in order.
    func queue() throws -> [String] {
        try rows("SELECT operation, entity, id, fields FROM sync_change ORDER BY position").map { row in
            let operation = ["create", "update", "delete"][row[0] as Int]
            return "\(operation) \(row[1] as String) \(row[2] as String) \(row[3] as String)"
        }
    }

    /// The queue's changes in order.
    func changes() throws -> [Change] {
        try store.database.read { db in
            let sql = "SELECT \(StoredChange.columns) FROM sync_change ORDER BY position"
            return try Row.fetchAll(db, sql: sql).map { try StoredChange($0, store.schema).change }
        }
    }

    /// Applies records at the present checkpoint, up to the highest version among them.
    @discardableResult
    func apply(_ records: ServerRecord...) async throws -> SliceReport {
        let from = try await store.position().checkpoint
        return try await store.apply(
            PageSlice(
                records: records, from: from, checkpoint: max(from, records.map(\.version).max() ?? from),
                epoch: Self.epoch))
    }

    /// Ten boards in step, of which another history has the first under an older name, and the last not at all.
    func applyOlderHistory() async throws {
        for n in 1...10 { try await apply(record("board", "b\(n)", Int64(n), ["name": .string("B\(n)")])) }
        try await store.beginFullPass(epoch: "e-2")
        let records = (1...9).map {
            record("board", "b\($0)", Int64($0), ["name": $0 == 1 ? "Old" : .string("B\($0)")])
        }
        _ = try await store.apply(PageSlice(records: records, from: 0, checkpoint: 9, epoch: "e-2"))
        _ = try await store.endFullPass(confirmed: false)
    }

    /// A board, a list and a card that are in step with the server, at versions 1 to 3.
    func applyBoard() async throws {
        try await apply(
            record("board", "b1", 1, ["name": "Board"]),
            record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
            record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]))
    }

    /// A board with two lists; the card is in the first. Everything up to version 4 is here.
    static func twoLists() async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("list", "l2", 4, ["name": "Other", "idBoard": "b1", "pos": 2.0]))
        return f
    }

    /// Two boards; the first has a list with a card. Everything up to version 4 is here.
    static func twoBoards() async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 4, ["name": "Other"]))
        return f
    }
}

struct FixedClock: WallClock {
    var nowMilliseconds: Int64 { 1_000_000 }
}

func record(
    _ entity: String, _ id: String, _ version: Int64, _ fields: [String: FieldValue] = [:],
    _ presence: ServerRecord.Presence = .live
) -> ServerRecord {
    ServerRecord(key: RecordKey(entity, id), version: version, presence: presence, fields: fields)
}
