import Foundation
import GRDB
import Storage
import SyncCore
import Testing

@testable import SyncSimulator

/// Seeds whose app has derived data: whatever happens, it is what follows from the rows.
@Suite struct DerivedCountsTests {
    private func run(_ seed: UInt64, bug: PlantedBug? = nil) throws -> SeedReport {
        var options = try SimulationOptions(folder: NSTemporaryDirectory(), bug: bug)
        options.derives = true
        return try Simulation.run(seed: seed, options)
    }

    /// In each of them it was wrong somewhere where only the records named by a step told what it touched.
    @Test("Seeds with derived data violate nothing", arguments: [1, 4, 10, 12, 16, 17, 25, 48] as [UInt64])
    func derived(seed: UInt64) throws {
        let report = try run(seed)
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.isComplete)
    }

    @Test("Derived rows that are not what follows are found, as many as are wrong, and none of what was just written")
    func wrong() throws {
        let folder = NSTemporaryDirectory() + "derived-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let schema = try Schema(SimulationSchema.entities)
        let derived = DerivedCounts(schema)
        var configuration = StoreConfiguration()
        configuration.snapshots = derived.builders
        let store = try Store(path: folder + "/d.sqlite", schema: schema, configuration: configuration)
        func differences() throws -> [String] { try store.database.read { try derived.differences($0) } }
        try store.database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO board (id, name) VALUES ('b', 'B');
                    INSERT INTO list (id, idBoard, name) VALUES ('l', 'b', 'L');
                    INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'C'), ('d', 'l', 'D');
                    """)
        }
        // The engine has not been there since.
        #expect(try differences() == [])
        try store.database.write { try store.refreshSnapshots($0) }
        #expect(try differences() == [])
        try store.database.write { try $0.execute(sql: "UPDATE derived_card_idList SET n = 3") }
        #expect(try differences().map { $0.prefix(16) } == ["card_idList has ", "card_idList_idBo"])
        try store.database.write {
            try $0.execute(sql: "DELETE FROM derived_card_idList; DELETE FROM derived_list_idBoard")
        }
        #expect(
            try differences() == [
                "list_idBoard lacks 1 of board b, lL", "card_idList lacks 2 of list l, cC dD",
                "card_idList_idBoard_sum has 2 of board b, -",
            ])
        try store.database.close()
    }

    @Test("A row that the engine changes and tells nobody of is found, once; what the app writes is none of it")
    func untold() throws {
        let bench = try Bench()
        let told = try ToldRows(bench.store)
        func untold() throws -> [String] { try bench.store.database.write { try told.untold($0).map(\.id) } }
        try bench.sql("INSERT INTO board (id, name) VALUES ('mine', 'A')")
        #expect(try untold() == [])
        try bench.sql(
            """
            UPDATE sync_clock SET applying = 1; INSERT INTO board (id, name) VALUES ('b', 'B');
            UPDATE board SET name = 'A' WHERE id = 'mine'; UPDATE sync_clock SET applying = 0;
            """)
        #expect(try untold() == ["b"])
        #expect(try untold() == [])
        try bench.close()
    }
}
