import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("What a slice asks of SQLite")
struct SliceCostTests {
    @Test("a version that is held is one row of one tree: its statement has nothing to put aside")
    func versions() async throws {
        let f = try Fixture()
        let codes = try await f.store.database.read { db in
            try Row.fetchAll(db, sql: "EXPLAIN \(RecordMarks.replacing.replacing("?", with: "NULL"))").map {
                $0["opcode"] as String
            }
        }
        #expect(codes.count { $0 == "OpenWrite" } == 1, "\(codes)")
        #expect(codes.count { $0 == "IdxInsert" } == 1, "\(codes)")
        // Another index, a trigger, a foreign key or a second row would bring these.
        for code in ["IdxDelete", "Program", "FkCounter", "FkIfZero", "Yield", "InitCoroutine"] {
            #expect(!codes.contains(code), "\(codes)")
        }
        try await f.store.close()
    }

    @Test("a store that is opened as usual brings its log in beside its work, one on a test's executor does not")
    func checkpoints() async throws {
        let file = try TestFile()
        let usual = try Store(path: file.path, schema: boardSchema())
        #expect(await usual.checkpointer?.worksBeside == true)
        try await usual.close()
        let brought = try Store(
            path: file.path, schema: boardSchema(), configuration: StoreConfiguration(executor: Inline()))
        #expect(await brought.checkpointer?.worksBeside == false)
        try await brought.close()
    }
}
