import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@Suite("Keys of changes")
struct CapturedKeyTests {
    private struct Moment: WallClock {
        let nowMilliseconds: Int64
    }

    /// The time of every write in these tests: a moment whose milliseconds fill both parts of the time in a key.
    private static let time: Int64 = 0x0192_3456_789a

    private func store(_ file: TestFile, at time: Int64) throws -> Store {
        try Store(
            path: file.path, schema: boardSchema(),
            configuration: StoreConfiguration(clock: Moment(nowMilliseconds: time), fixesTriggerClock: true))
    }

    private func keys(_ store: Store) async throws -> [String] {
        try await store.database.read { db in
            try String.fetchAll(db, sql: "SELECT key FROM sync_change ORDER BY position")
        }
    }

    private func write(_ boards: Range<Int>, to store: Store) async throws {
        try await store.database.write { db in
            for n in boards {
                try db.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'A')", arguments: ["b\(n)"])
            }
        }
    }

    @Test(
        "IDS-07 a key is a UUID of version 7 with the write's time; those of one moment stand in the order of the writes"
    )
    func sorted() async throws {
        let file = try TestFile()
        let store = try store(file, at: Self.time)
        try await write(0..<300, to: store)
        let keys = try await keys(store)
        #expect(Set(keys).count == 300)
        let form = #/01923456-789a-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/#
        #expect(keys.allSatisfy { $0.wholeMatch(of: form) != nil })
        #expect(keys == keys.sorted())
        try await store.close()
    }

    @Test("IDS-04 two devices that write at the same moment, with the same numbers, have no key in common")
    func apart() async throws {
        let files = try [TestFile(), TestFile()]
        var all: Set<String> = []
        for file in files {
            let store = try store(file, at: Self.time)
            try await write(0..<300, to: store)
            all.formUnion(try await keys(store))
            try await store.close()
        }
        #expect(all.count == 600)
    }

    @Test("IDS-04 10,000 records made in one millisecond on each of two devices: no id and no key is there twice")
    func manyOfOneMoment() async throws {
        let files = try [TestFile(), TestFile()]
        var (ids, keys): (Set<String>, Set<String>) = ([], [])
        for file in files {
            let store = try store(file, at: Self.time)
            let source = UUIDv7Source(clock: Moment(nowMilliseconds: Self.time))
            let made = (0..<10_000).map { _ in source.makeID() }
            ids.formUnion(made)
            try await store.database.write { db in
                let insert = try db.cachedStatement(sql: "INSERT INTO board (id, name) VALUES (?, 'A')")
                for id in made { try insert.execute(arguments: [id]) }
            }
            keys.formUnion(try await self.keys(store))
            try await store.close()
        }
        #expect(ids.count == 20_000)
        #expect(keys.count == 20_000)
    }

    @Test("A clock before 1970 gives keys of the right length")
    func beforeTheEpoch() async throws {
        let file = try TestFile()
        let store = try store(file, at: -1)
        try await write(0..<1, to: store)
        #expect(try await keys(store)[0].hasPrefix("ffffffff-ffff-7001-"))
        try await store.close()
    }

    @Test("PRC-18 a file of the format before gets the new keys, and keeps those that it has")
    func upgraded() async throws {
        let file = try TestFile()
        let old = try store(file, at: Self.time)
        try await write(0..<1, to: old)
        let first = try await keys(old)
        try await old.database.write { db in
            // As format 3 had it, but for what the trigger makes.
            try db.execute(sql: "DROP TRIGGER sync_enqueue_change")
            try db.execute(
                sql: """
                    CREATE TRIGGER sync_enqueue_change INSTEAD OF INSERT ON sync_enqueue
                    BEGIN SELECT RAISE(ABORT, 'the trigger of before'); END
                    """)
            try db.execute(sql: "UPDATE sync_meta SET value = 3 WHERE key = 'format'")
        }
        try await old.close()
        let new = try store(file, at: Self.time)
        try await write(1..<2, to: new)
        let keys = try await keys(new)
        #expect(keys.first == first.first)
        #expect(keys.count == 2)
        try await new.close()
    }
}
