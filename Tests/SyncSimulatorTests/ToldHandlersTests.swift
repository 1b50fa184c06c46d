import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// Seeds whose app has handlers of its own: what they were told is what is here.
@Suite struct ToldHandlersTests {
    /// 94: a table that another process made; the others: what left with a verdict, as it told of it, or as a change was given up.
    @Test("Seeds with handlers violate nothing", arguments: [94, 109, 277, 337, 567, 720] as [UInt64])
    func handlers(seed: UInt64) throws {
        var options = try SimulationOptions(folder: NSTemporaryDirectory())
        options.hasHandlers = true
        let report = try Simulation.run(seed: seed, options)
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.isComplete)
    }

    @Test("A handler refuses some words once, and keeps the newest that it took; a killed process takes none")
    func words() async throws {
        let told = ToldHandlers(CanonicalIDs())
        let schema = try Schema(SimulationSchema.entities)
        let (alive, dead) = (told.handlers(schema) { false }, told.handlers(schema) { true })
        #expect(alive.map(\.schema.name) == schema.entities.map(\.name))
        var refused = 0
        for number in 1...70 {
            let record = ServerRecord(key: RecordKey("board", "b\(number)"), version: Int64(number), presence: .live)
            do { try await alive[0].applyResponse(record) } catch { refused += 1 }
            try? await alive[0].applyResponse(record)
            #expect(told.words[record.key]?.version == Int64(number))
        }
        #expect((1...30).contains(refused))
        let gone = ServerRecord(key: RecordKey("board", "b1"), version: 2, presence: .gone)
        await #expect(throws: ToldHandlers.Refused.self) { try await dead[0].applyResponse(gone) }
        #expect(told.words[gone.key]?.presence == .live)
        told.isWilling = true
        try await alive[0].applyResponse(gone)
        #expect(told.words[gone.key]?.presence == .gone)
        told.begin(with: nil)
        #expect(told.words.isEmpty)
    }

    @Test("With older files a handler knows what lives there, and that what only an edit shows is dead (seed 9026)")
    func older() throws {
        let bench = try Bench()
        try bench.sql(
            """
            INSERT INTO board (id, name) VALUES ('b', 'B'), ('d', 'D');
            DELETE FROM sync_change; DELETE FROM sync_record;
            INSERT INTO sync_record (entity, id, version, base) VALUES
              ('board', 'b', 5, NULL), ('board', 'd', 6, '{"deleted":true,"fields":{}}'), ('board', 'x', 7, NULL);
            """)
        let told = ToldHandlers(CanonicalIDs())
        told.begin(with: try bench.facts())
        #expect(
            told.words.mapValues(\.presence) == [RecordKey("board", "b"): .live, RecordKey("board", "d"): .deleted])
        try bench.close()
    }
}
