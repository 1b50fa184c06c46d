import Foundation
import GRDB
import Storage
import SyncCore

/// A process that works on a store and is killed at a statement of its own choice: `storage-victim WORK PATH STATEMENT`.
///
/// `KilledProcessTests` starts it and looks at what it left. The kill is a real SIGKILL, so nothing is closed, flushed or
/// rolled back by anybody but SQLite at the next opening. Exit 0: the work was done before that statement came.
@main
struct StorageVictim {
    static func main() async {
        let words = CommandLine.arguments
        guard words.count >= 4, let statement = Int(words[3]) else {
            FileHandle.standardError.write(Data("usage: storage-victim WORK PATH STATEMENT [RECORDS]\n".utf8))
            exit(2)
        }
        do {
            try await work(words, killedAt: statement)
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            exit(1)
        }
    }

    private static func work(_ words: [String], killedAt statement: Int) async throws {
        let (fuse, room) = (Fuse(), Room())
        let store = try Store(
            path: words[2], schema: schema(),
            configuration: StoreConfiguration(statementHook: { sql in
                fuse.burn()
                room.look(at: sql)
                return true
            }))
        switch words[1] {
        case "write":
            fuse.light(statement)
            try await write(store)
        case "slice":
            try await prepareSlice(store)
            fuse.light(statement)
            try await slice(store)
        case "verdict":
            let key = try await prepareVerdict(store)
            fuse.light(statement)
            try await verdict(store, key)
        case "wipe":
            try await prepareWipe(store)
            fuse.light(statement)
            try await store.wipe()
        case "wipe-full", "wipe-again":
            try await prepareWipe(store)
            try await wipeWithoutRoom(store, room)
            guard words[1] == "wipe-again" else { exit(0) }
            room.give()
            try await store.wipe()
        case "suspend": try await suspend(store)
        case "pull":
            fuse.light(statement)
            try await pull(store, records: Int64(words.count > 4 ? words[4] : "") ?? 1_000)
        default:
            exit(2)
        }
        fuse.putOut()
        try await store.close()
    }

    static func schema() throws -> Schema {
        try Schema([
            EntitySchema("board", fields: [.text("name", required: true), .boolean("closed")]),
            EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
        ])
    }

    private static func record(_ id: String, _ version: Int64, _ name: String) -> ServerRecord {
        ServerRecord(key: RecordKey("board", id), version: version, fields: ["name": .string(name)])
    }

    private static func write(_ store: Store) async throws {
        try await store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')")
            try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
            try db.execute(sql: "UPDATE board SET name = 'B'")
        }
    }

    private static func prepareSlice(_ store: Store) async throws {
        guard try await store.position().checkpoint == 0 else { return }
        _ = try await store.apply(PageSlice(records: [record("b1", 1, "A")], from: 0, checkpoint: 1, epoch: "e"))
        try await store.write { try $0.execute(sql: "UPDATE board SET closed = 1") }
    }

    private static func slice(_ store: Store) async throws {
        let orphan = ServerRecord(
            key: RecordKey("list", "l1"), version: 4, fields: ["name": "L", "idBoard": "b9"])
        let records = [record("b1", 2, "B"), record("b2", 3, "C"), orphan]
        _ = try await store.apply(PageSlice(records: records, from: 1, checkpoint: 4, epoch: "e"))
    }

    private static func prepareVerdict(_ store: Store) async throws -> String {
        if try await store.queued().isEmpty {
            try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
            try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')") }
        }
        return try await store.settle(Settlement(), claim: ClaimLimits(maxChanges: 1)).changes[0].change.id
    }

    /// Nine rows, and four changes that wait.
    private static func prepareWipe(_ store: Store) async throws {
        let records = (0..<10).map { record("b\($0)", Int64($0 + 1), "SECRETWORD \($0)") }
        _ = try await store.apply(PageSlice(records: records, from: 0, checkpoint: 10, epoch: "e"))
        try await store.write { try $0.execute(sql: "UPDATE board SET name = 'SECRETWORD' WHERE id < 'b3'") }
        try await store.write { try $0.execute(sql: "DELETE FROM board WHERE id = 'b9'") }
    }

    /// The rows go, and then no file may grow: what is written anew has no room.
    private static func wipeWithoutRoom(_ store: Store, _ room: Room) async throws {
        room.endsAt("VACUUM")
        var failure: StoreFailure?
        do { try await store.wipe() } catch { failure = error }
        guard failure?.kind == .full || failure?.kind == .io else { exit(3) }
    }

    private static func verdict(_ store: Store, _ key: String) async throws {
        let outcome = Settlement.Outcome(changeID: key, kind: .applied(version: 7, overwrote: [:], serverID: nil))
        _ = try await store.settle(Settlement(outcomes: [outcome]), claim: ClaimLimits(maxChanges: 1))
    }

    /// The system announces, amid a write, that it suspends the app: the write ends at once and leaves nothing; the next one
    /// after the app is awake again is as any other.
    private static func suspend(_ store: Store) async throws {
        do {
            try await store.write { db in
                try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')")
                NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
                try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')")
            }
            exit(3)
        } catch let failure where failure.kind == .io {
            NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        }
        try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b3', 'C')") }
    }

    /// A first download of so many records, from where the file stands.
    private static func pull(_ store: Store, records: Int64) async throws {
        var checkpoint = try await store.position().checkpoint
        while checkpoint < records {
            let last = min(checkpoint + 500, records)
            let slice = ((checkpoint + 1)...last).map { number in
                record("b\(number)", number, "the board number \(number)")
            }
            _ = try await store.apply(PageSlice(records: slice, from: checkpoint, checkpoint: last, epoch: "e"))
            checkpoint = last
        }
    }
}

/// Ends the process at the given statement once it is lit.
final class Fuse: @unchecked Sendable {  // the lock guards the field
    private let lock = NSLock()
    private var left: Int?

    func light(_ statement: Int) { lock.withLock { left = statement } }
    func putOut() { lock.withLock { left = nil } }

    func burn() {
        lock.withLock {
            guard let present = left else { return }
            if present <= 1 { kill(getpid(), SIGKILL) }
            left = present - 1
        }
    }
}

/// How far files of this process may grow.
final class Room: @unchecked Sendable {  // the lock guards the field
    private let lock = NSLock()
    private var last: String?

    /// From this statement on none may.
    func endsAt(_ sql: String) { lock.withLock { last = sql } }

    func look(at sql: () -> String) {
        guard let last = lock.withLock({ last }), sql() == last else { return }
        signal(SIGXFSZ, SIG_IGN)
        set(0)
    }

    func give() {
        lock.withLock { last = nil }
        set(.max)
    }

    private func set(_ bytes: rlim_t) {
        #if canImport(Darwin)
            let resource = RLIMIT_FSIZE
        #else
            let resource = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
        #endif
        var limit = rlimit()
        getrlimit(resource, &limit)
        limit.rlim_cur = min(bytes, limit.rlim_max)
        setrlimit(resource, &limit)
    }
}
