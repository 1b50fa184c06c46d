import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

/// Lists with cards in boards; the number of cards of each list, and of each board over its lists.
private enum Derived {
    static let entities = [
        EntitySchema("board", fields: [.text("name")]),
        EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name")]),
        EntitySchema("card", fields: [.parent("idList", "list"), .text("name")]),
    ]

    /// What builders were asked to rebuild, and whether one of them throws.
    final class Log: @unchecked Sendable {
        // Sendable: used under `lock` alone.
        private let lock = NSLock()
        private var asked: [String] = []
        private var broken: Set<String> = []
        func note(_ builder: String, _ ids: [String]) throws {
            let isBroken = lock.withLock { () -> Bool in
                asked.append("\(builder): \(ids.joined(separator: ","))")
                return broken.contains(builder)
            }
            if isBroken { throw Broken() }
        }
        func take() -> [String] {
            lock.withLock {
                defer { asked = [] }
                return asked
            }
        }
        func breakDown(_ builders: Set<String>) { lock.withLock { broken = builders } }
    }

    struct Broken: Error {}

    /// - Parameter lists: the version of `listCount`; from the second on a card counts twice.
    static func builders(_ log: Log, version: Int = 1, lists: Int? = nil) -> [SnapshotBuilder] {
        [
            // Declared before what it depends on, on purpose.
            SnapshotBuilder(
                "boardCount", subject: "board", version: version,
                dependsOn: [.entity("board"), .snapshot("listCount", ["idBoard"])],
                setUp: { db in
                    try db.execute(sql: "DROP TABLE IF EXISTS boardCount")
                    try db.execute(
                        sql: "CREATE TABLE boardCount (id TEXT PRIMARY KEY NOT NULL, cards INTEGER NOT NULL)")
                },
                rebuild: { db, ids in
                    for id in ids {
                        try db.execute(sql: "DELETE FROM boardCount WHERE id = ?", arguments: [id])
                        try db.execute(
                            sql: """
                                INSERT INTO boardCount SELECT id, (SELECT coalesce(sum(cards), 0) FROM listCount
                                JOIN list USING (id) WHERE idBoard = board.id) FROM board WHERE id = ?
                                """, arguments: [id])
                    }
                    try log.note("boardCount", ids)
                }),
            SnapshotBuilder(
                "listCount", subject: "list", version: lists ?? version,
                dependsOn: [.entity("list"), .entity("card", ["idList"])],
                setUp: { db in
                    try db.execute(sql: "DROP TABLE IF EXISTS listCount")
                    try db.execute(sql: "CREATE TABLE listCount (id TEXT PRIMARY KEY NOT NULL, cards INTEGER NOT NULL)")
                },
                rebuild: { db, ids in
                    for id in ids {
                        try db.execute(sql: "DELETE FROM listCount WHERE id = ?", arguments: [id])
                        try db.execute(
                            sql: """
                                INSERT INTO listCount SELECT id, (SELECT count(*) * ? FROM card WHERE idList = list.id)
                                FROM list WHERE id = ?
                                """, arguments: [lists ?? 1, id])
                    }
                    try log.note("listCount", ids)
                }),
        ]
    }
}

/// A store with derived data in a folder of its own.
private final class Bench: Sendable {
    let log = Derived.Log()
    let store: Store
    private let folder: URL

    init(_ folder: URL? = nil, version: Int = 1, lists: Int? = nil) throws {
        self.folder =
            folder ?? FileManager.default.temporaryDirectory.appendingPathComponent("derived-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        var configuration = StoreConfiguration()
        configuration.clock = ManualWallClock()
        configuration.snapshots = Derived.builders(log, version: version, lists: lists)
        store = try Store(
            path: self.folder.appendingPathComponent("d.sqlite").path, schema: Schema(Derived.entities),
            configuration: configuration)
    }

    func close() async throws -> URL {
        try await store.close()
        return folder
    }

    func end() async throws { try FileManager.default.removeItem(at: try await close()) }

    func counts(_ table: String) throws -> [String: Int] {
        try store.database.read { db in
            var found: [String: Int] = [:]
            for row in try Row.fetchAll(db, sql: "SELECT id, cards FROM \(table)") { found[row[0]] = row[1] }
            return found
        }
    }

    @discardableResult
    func apply(_ version: Int64, _ records: [ServerRecord]) async throws -> SliceReport {
        try await store.apply(
            PageSlice(records: records, from: 0, checkpoint: version + Int64(records.count), epoch: "e-1"))
    }

    /// Boards 1 and 2 with a list each, two cards in the first.
    func fill() async throws {
        try await apply(
            1,
            [
                record("board", "b-1", 1), record("board", "b-2", 2), record("list", "l-1", 3, ["idBoard": "b-1"]),
                record("list", "l-2", 4, ["idBoard": "b-2"]), record("card", "c-1", 5, ["idList": "l-1"]),
                record("card", "c-2", 6, ["idList": "l-1"]),
            ])
        _ = log.take()
    }

    func record(
        _ entity: String, _ id: String, _ version: Int64, _ fields: [String: FieldValue] = [:],
        _ presence: ServerRecord.Presence = .live
    ) -> ServerRecord {
        ServerRecord(
            key: RecordKey(entity, id), version: version, presence: presence,
            fields: presence == .live ? fields.merging(["name": "n"]) { old, _ in old } : [:])
    }
}

@Suite struct SnapshotTests {
    @Test("QUE-14 what many local writes touched is found by as many statements as what one did")
    func many() async throws {
        let bench = try Bench()
        try await bench.fill()
        var statements: [Int] = []
        for (round, count) in [1, 200].enumerated() {
            try await bench.store.database.write { db in
                for number in 0..<count {
                    try db.execute(
                        sql: "INSERT INTO card (id, idList) VALUES (?, ?)",
                        arguments: ["n-\(round)-\(number)", number % 2 == 0 ? "l-1" : "l-2"])
                }
            }
            let counter = Counter()
            try await bench.store.database.write { db in
                db.trace {
                    if case .statement(let statement) = $0, statement.sql.contains("json_each") { counter.count() }
                }
                try bench.store.refreshSnapshots(db)
                db.trace(nil)
            }
            statements.append(counter.value)
        }
        #expect(statements[0] > 0 && statements[0] == statements[1])
        #expect(try bench.counts("listCount") == ["l-1": 2 + 1 + 100, "l-2": 100])
        try await bench.end()
    }

    @Test("QUE-14 of many changes that are retried at once what is derived is made anew once")
    func retried() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.store.database.write { db in
            for number in 0..<50 {
                try db.execute(
                    sql: "UPDATE card SET idList = ? WHERE id = ?",
                    arguments: [number % 2 == 0 ? "l-1" : "l-2", number % 4 < 2 ? "c-1" : "c-2"])
                try db.execute(sql: "INSERT INTO card (id, idList) VALUES (?, 'l-1')", arguments: ["n-\(number)"])
            }
        }
        let claim = try await bench.store.settle(Settlement(), claim: ClaimLimits())
        let reason = SetAsideReason(code: "invalid", message: "no")
        let refused = claim.changes.map {
            Settlement.Outcome(changeID: $0.change.id, kind: .setAside(reason, staysUncertain: false))
        }
        _ = try await bench.store.settle(Settlement(outcomes: refused), claim: nil)
        let ids = try await bench.store.failures().map(\.queued.change.id)
        #expect(ids.count >= 50)
        _ = bench.log.take()
        let outcomes = try await bench.store.retry(ids)
        #expect(outcomes.count == ids.count)
        // Once for what was there before, once for what came of it.
        #expect(bench.log.take().filter { $0.hasPrefix("listCount") }.count <= 2)
        let counts = try await bench.store.database.read { db in
            try Row.fetchAll(db, sql: "SELECT id, (SELECT count(*) FROM card WHERE idList = list.id) FROM list").map {
                ($0[0] as String, $0[1] as Int)
            }
        }
        #expect(try bench.counts("listCount") == Dictionary(uniqueKeysWithValues: counts))
        try await bench.end()
    }

    private final class Recorder: @unchecked Sendable {
        // Sendable: written by the one connection that writes, and read after it.
        var statements: Set<String> = []
    }

    @Test("QUE-14 what a verdict or a repair may touch is found without a walk over the queue")
    func plans() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.store.database.write { db in
            for number in 0..<4 {
                try db.execute(sql: "INSERT INTO card (id, idList) VALUES (?, 'l-1')", arguments: ["n-\(number)"])
            }
        }
        let recorder = Recorder()
        try await bench.store.database.writeWithoutTransaction { db in
            db.trace { if case .statement(let statement) = $0 { recorder.statements.insert(statement.sql) } }
        }
        let keys = try await bench.store.settle(Settlement(), claim: ClaimLimits()).changes.map(\.change.id)
        let reason = SetAsideReason(code: "invalid", message: "no")
        let refused = keys.map {
            Settlement.Outcome(changeID: $0, kind: .setAside(reason, staysUncertain: false))
        }
        _ = try await bench.store.settle(Settlement(outcomes: refused), claim: nil)
        _ = try await bench.store.retry(keys[0])
        _ = try await bench.store.retry(Array(keys[1...2]))
        _ = try await bench.store.discard(keys[3])
        try await bench.store.database.writeWithoutTransaction { $0.trace(nil) }
        let asked = recorder.statements.filter { $0.hasPrefix("SELECT") && $0.contains("json_each") }
        #expect(!asked.isEmpty)
        for sql in asked {
            let plan = try await bench.store.database.read { db in
                try Row.fetchAll(
                    db, sql: "EXPLAIN QUERY PLAN \(sql)", arguments: ["[]"]
                ).map { $0["detail"] as String }
            }
            for line in plan { #expect(!line.hasPrefix("SCAN sync_change"), "\(sql)") }
        }
        try await bench.end()
    }

    private final class Counter: @unchecked Sendable {
        // Sendable: counted in one write after another.
        private(set) var value = 0
        func count() { value += 1 }
    }

    @Test("A slice rebuilds what it touched, and only that, in dependency order")
    func slice() async throws {
        let bench = try Bench()
        try await bench.fill()
        #expect(try bench.counts("listCount") == ["l-1": 2, "l-2": 0])
        #expect(try bench.counts("boardCount") == ["b-1": 2, "b-2": 0])
        try await bench.apply(7, [bench.record("card", "c-3", 7, ["idList": "l-2"])])
        #expect(bench.log.take() == ["listCount: l-2", "boardCount: b-2"])
        #expect(try bench.counts("boardCount") == ["b-1": 2, "b-2": 1])
        try await bench.end()
    }

    @Test("A move rebuilds both ends, a deletion the end that there was, and what is under a deleted record goes")
    func ends() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.apply(7, [bench.record("card", "c-1", 7, ["idList": "l-2"])])
        #expect(bench.log.take() == ["listCount: l-1,l-2", "boardCount: b-1,b-2"])
        #expect(try bench.counts("boardCount") == ["b-1": 1, "b-2": 1])
        try await bench.apply(8, [bench.record("card", "c-2", 8, [:], .deleted)])
        #expect(bench.log.take() == ["listCount: l-1", "boardCount: b-1"])
        try await bench.apply(9, [bench.record("list", "l-2", 9, [:], .deleted)])
        #expect(try bench.counts("listCount") == ["l-1": 0])
        #expect(try bench.counts("boardCount") == ["b-1": 0, "b-2": 0])
        try await bench.end()
    }

    @Test("What a change that is given up takes along is rebuilt where it stood, if it shared but a unit with it")
    func givenUp() async throws {
        let bench = try Bench()
        try await bench.fill()
        let store = bench.store
        try await store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('n-b', 'B')")
            try db.execute(sql: "INSERT INTO card (id, idList) VALUES ('n-c', 'l-2')")
        }
        let keys = try await store.settle(Settlement(), claim: ClaimLimits()).changes.map(\.change.id)
        #expect(try bench.counts("boardCount") == ["b-1": 2, "b-2": 1, "n-b": 0])
        let refused = Settlement.Outcome(
            changeID: keys[0], kind: .setAside(SetAsideReason(code: "forbidden", message: "no"), staysUncertain: false))
        _ = try await store.settle(Settlement(outcomes: [refused]), claim: nil)
        #expect(try await store.discard(keys[0]).count == 2)
        #expect(try bench.counts("listCount") == ["l-1": 2, "l-2": 0])
        #expect(try bench.counts("boardCount") == ["b-1": 2, "b-2": 0])
        try await bench.end()
    }

    @Test("An app that takes the connection's temporary tables away has everything derived made anew")
    func withoutNotes() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA temp_store = MEMORY") }
        try await bench.store.database.write { db in
            try db.execute(sql: "UPDATE sync_clock SET applying = 1; DELETE FROM card WHERE id = 'c-1'")
            try db.execute(sql: "UPDATE sync_clock SET applying = 0")
        }
        try await bench.apply(7, [bench.record("card", "c-3", 7, ["idList": "l-2"])])
        #expect(try bench.counts("listCount") == ["l-1": 1, "l-2": 1])
        try await bench.apply(8, [bench.record("card", "c-2", 8, [:], .deleted)])
        #expect(try bench.counts("boardCount") == ["b-1": 0, "b-2": 1])
        // Nor is it missed where everything is made anew.
        try await bench.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA temp_store = FILE") }
        try await bench.store.setScopes([RecordKey("board", "b-2")])
        #expect(try bench.counts("boardCount") == ["b-2": 1])
        try await bench.end()
    }

    @Test("What a trigger of the app's takes along is rebuilt where it stood")
    func cascade() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.store.database.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER mine AFTER DELETE ON board BEGIN DELETE FROM card WHERE id = 'c-2'; END
                    """)
        }
        try await bench.apply(7, [bench.record("board", "b-2", 7, [:], .deleted)])
        #expect(try bench.counts("listCount") == ["l-1": 1])
        #expect(try bench.counts("boardCount") == ["b-1": 1])
        try await bench.end()
    }

    @Test(
        "What the app writes is rebuilt in its own transaction where it asks, and before the engine's next step anyway")
    func localWrites() async throws {
        let bench = try Bench()
        try await bench.fill()
        let store = bench.store
        try await store.database.write { db in
            try db.execute(sql: "UPDATE card SET idList = 'l-2' WHERE id = 'c-1'")
            try store.refreshSnapshots(db)
        }
        #expect(bench.log.take() == ["listCount: l-1,l-2", "boardCount: b-1,b-2"])
        try await store.database.write { db in try db.execute(sql: "DELETE FROM card WHERE id = 'c-1'") }
        #expect(try bench.counts("listCount") == ["l-1": 1, "l-2": 1])
        _ = try await store.settle(Settlement(), claim: ClaimLimits())
        #expect(try bench.counts("listCount") == ["l-1": 1, "l-2": 0])
        // A refused delete brings the card back, and what follows from it.
        let key = try #require(try await store.queued().first { $0.change.operation == .delete }).change.id
        let refused = Settlement.Outcome(
            changeID: key, kind: .setAside(SetAsideReason(code: "forbidden", message: "no"), staysUncertain: false))
        _ = try await store.settle(Settlement(outcomes: [refused]), claim: nil)
        #expect(try bench.counts("listCount").values.reduce(0, +) == 2)
        try await bench.end()
    }

    @Test("PRC-23 a builder that throws is rolled back to its savepoint and reported; the slice and the others stand")
    func throwing() async throws {
        let bench = try Bench()
        try await bench.fill()
        bench.log.breakDown(["boardCount"])
        let report = try await bench.apply(7, [bench.record("card", "c-3", 7, ["idList": "l-2"])])
        #expect(report.applied == 1)
        #expect(try await bench.store.position().checkpoint == 8)
        #expect(try bench.counts("listCount") == ["l-1": 2, "l-2": 1])
        // The builder had written before it threw.
        #expect(try bench.counts("boardCount") == ["b-1": 2, "b-2": 0])
        let events = try await bench.store.events().filter { $0.kind == "snapshotFailed" }
        #expect(events.count == 1)
        #expect(events.first?.detail?.hasPrefix("boardCount") == true)
        // The next time that it is touched it is made anew in whole.
        bench.log.breakDown([])
        _ = bench.log.take()
        try await bench.apply(8, [bench.record("card", "c-4", 9, ["idList": "l-1"])])
        #expect(bench.log.take() == ["listCount: l-1", "boardCount: b-1,b-2"])
        #expect(try bench.counts("boardCount") == ["b-1": 3, "b-2": 1])
        try await bench.end()
    }

    @Test("A builder of a new version makes everything anew when the store opens, one of the same version nothing")
    func versions() async throws {
        let bench = try Bench()
        try await bench.fill()
        let folder = try await bench.close()
        let same = try Bench(folder)
        #expect(same.log.take().isEmpty)
        _ = try await same.close()
        let newer = try Bench(folder, version: 2)
        #expect(newer.log.take() == ["listCount: l-1,l-2", "boardCount: b-1,b-2"])
        #expect(try newer.counts("boardCount") == ["b-1": 2, "b-2": 0])
        try await newer.end()
    }

    @Test("A builder of a new version takes along what depends on it, which makes the same of something else")
    func versionsBelow() async throws {
        let bench = try Bench()
        try await bench.fill()
        let newer = try Bench(try await bench.close(), lists: 2)
        #expect(newer.log.take() == ["listCount: l-1,l-2", "boardCount: b-1,b-2"])
        #expect(try newer.counts("listCount") == ["l-1": 4, "l-2": 0])
        #expect(try newer.counts("boardCount") == ["b-1": 4, "b-2": 0])
        let again = try Bench(try await newer.close(), lists: 2)
        #expect(again.log.take().isEmpty)
        try await again.end()
    }

    @Test("PRC-23 a builder that is made anew after it threw takes along what depends on it, touched or not")
    func throwingBelow() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.apply(7, [bench.record("card", "c-3", 7, ["idList": "l-1"])])
        bench.log.breakDown(["listCount"])
        try await bench.apply(8, [bench.record("card", "c-3", 8, ["idList": "l-2"])])
        #expect(try bench.counts("boardCount") == ["b-1": 3, "b-2": 0])
        bench.log.breakDown([])
        _ = bench.log.take()
        try await bench.apply(9, [bench.record("card", "c-4", 9, ["idList": "l-1"])])
        #expect(bench.log.take() == ["listCount: l-1,l-2", "boardCount: b-1,b-2"])
        #expect(try bench.counts("listCount") == ["l-1": 3, "l-2": 1])
        #expect(try bench.counts("boardCount") == ["b-1": 3, "b-2": 1])
        try await bench.end()
    }

    @Test("Signing out takes derived rows along")
    func wipe() async throws {
        let bench = try Bench()
        try await bench.fill()
        try await bench.store.wipe()
        #expect(try bench.counts("listCount").isEmpty)
        try await bench.end()
    }

    @Test(
        "A circle, an unknown name and a path that leads elsewhere are refused at start, in words that say what to write"
    )
    func mistakes() throws {
        let schema = try Schema(Derived.entities)
        func builder(_ name: String, _ subject: String, _ on: [SnapshotBuilder.Dependency]) -> SnapshotBuilder {
            SnapshotBuilder(name, subject: subject, dependsOn: on, setUp: { _ in }, rebuild: { _, _ in })
        }
        let cases: [([SnapshotBuilder], String)] = [
            (
                [builder("a", "card", [.snapshot("b")]), builder("b", "card", [.snapshot("a")])],
                "depend on each other in a circle"
            ),
            ([builder("a", "card", [.snapshot("a")])], "depend on each other in a circle"),
            ([builder("a", "card", [.snapshot("x")])], "which is not declared"),
            ([builder("a", "crad", [])], "name an entity"),
            ([builder("a", "board", [.entity("card", ["idList"])])], "leads to “list”"),
            ([builder("a", "board", [.entity("card", ["name"])])], "which refers to nothing"),
            ([builder("a", "card", []), builder("a", "list", [])], "a name of its own"),
        ]
        for (builders, words) in cases {
            var configuration = StoreConfiguration()
            configuration.snapshots = builders
            do throws(StoreFailure) {
                _ = try Store(path: ":memory:", schema: schema, configuration: configuration)
                Issue.record("it was not refused: \(words)")
            } catch {
                #expect(error.kind == .invalid)
                #expect(error.message.contains(words), "\(error.message)")
            }
        }
    }
}
