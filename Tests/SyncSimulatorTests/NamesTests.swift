import GRDB
import Storage
import SyncCore
import Testing

@testable import SyncSimulator

/// Rows of a device whose server makes its own ids, as the checks see them.
@Suite struct NamesTests {
    private func facts(_ bench: Bench) throws -> DeviceFacts {
        var parsed: [String: FieldValue] = [:]
        return try bench.store.database.read {
            try DeviceFacts($0, bench.schema, &parsed, CanonicalIDs(bench.schema))
        }
    }

    /// Applied, as by the engine: nothing is captured.
    private func apply(_ sql: String, _ bench: Bench) throws {
        try bench.sql("UPDATE sync_clock SET applying = 1; \(sql); UPDATE sync_clock SET applying = 0")
    }

    @Test("A row has one canonical id, and is edited under the one that it has here")
    func names() throws {
        let bench = try Bench()
        try apply("INSERT INTO board (id, name) VALUES ('Sb', 'Garden')", bench)
        let rows = try facts(bench).rows
        let board = RecordKey("board", "b")
        #expect(rows.rows[board]?["name"] == "Garden")
        #expect(rows.names.key(board) == RecordKey("board", "Sb"))
        #expect(rows.twins.isEmpty && rows.strays.isEmpty && !rows.hasUnnamed)
        try bench.close()
    }

    @Test("What the device made, and was not told the server's id of, is not what came under that")
    func unnamed() throws {
        let bench = try Bench()
        try bench.write("INSERT INTO board (id, name) VALUES ('b', 'Garden')")
        try apply("INSERT INTO board (id, name) VALUES ('Sb', 'Kitchen garden')", bench)
        let both = try facts(bench).rows
        #expect(both.rows[RecordKey("board", "b")]?["name"] == "Garden")
        #expect(both.names.key(RecordKey("board", "b")).id == "b")
        #expect(both.twins == [RecordKey("board", "b")])
        // Deleted here, it shows no more, whatever the other row says.
        try bench.write("DELETE FROM board WHERE id = 'b'")
        try bench.sql("UPDATE sync_change SET operation = 0 WHERE operation = 2 AND id = 'b'")
        let alone = try facts(bench).rows
        #expect(alone.rows.isEmpty && alone.hasUnnamed)
        try bench.close()
    }

    @Test("A root held by an id that only the device knows is none to the server, until it is told its name there")
    func unnamedRoot() throws {
        let bench = try Bench()
        let records = ["b", "c"].map { ServerRecord(key: RecordKey("board", $0), version: 2) }
        func checkpoints() throws -> [Int64?] {
            let holding = Holding(try facts(bench), records, bench.schema)
            return records.map { holding.checkpoint(of: $0.key) }
        }
        try bench.sql(
            #"INSERT INTO sync_meta (key, value) VALUES ('scopes', '{"asked":{"board:b":4,"board:Sc":5}}')"#)
        #expect(try checkpoints() == [nil, 5])
        #expect(try facts(bench).scopes?.asked.count == 2)
        try bench.sql("INSERT INTO sync_identity (entity, id, serverID) VALUES ('board', 'b', 'Sb')")
        #expect(try checkpoints() == [4, 5])
        try bench.close()
    }

    @Test("A reference by an id that the device has not is found")
    func strays() throws {
        let bench = try Bench()
        try apply("INSERT INTO board (id, name) VALUES ('b', 'Garden')", bench)
        try apply("INSERT INTO list (id, idBoard, name, pos) VALUES ('l', 'b', 'Sowing', 1)", bench)
        try apply("INSERT INTO card (id, idList, idBoardSeen) VALUES ('Sc', 'l', 'Sb')", bench)
        let rows = try facts(bench).rows
        #expect(rows.rows[RecordKey("card", "c")]?["idBoardSeen"] == "b")
        #expect(rows.strays.map(\.id) == ["Sb"] && rows.strays.map(\.target) == [RecordKey("board", "b")])
        try apply("UPDATE card SET idBoardSeen = 'b'", bench)
        #expect(try facts(bench).rows.renamed.isEmpty)
        // Of what is not shown nobody knows the device's own id; who writes the canonical one writes another value (seed 47040).
        try apply("UPDATE card SET idBoardSeen = 'Sx'", bench)
        let other = try facts(bench).rows
        #expect(other.strays.isEmpty && other.renamed.map(\.id) == ["Sx"])
        try bench.close()
    }

    @Test("Seed 46890: of a record that is here as two the user deletes one, and the other one shows")
    func deletedOther() throws {
        let bench = try Bench()
        try apply("INSERT INTO board (id, name) VALUES ('Sb', 'Garden')", bench)
        try bench.sql("INSERT INTO board (id, name) VALUES ('b', 'Kitchen garden')")
        try bench.sql("DELETE FROM board WHERE id = 'Sb'")
        func found() throws -> [String] {
            let ids = CanonicalIDs(bench.schema)
            var ledger = Ledger()
            for var entry in try bench.store.database.read({ try Ledger.changes($0, above: 0, ids) }) {
                entry.isOriginal = true
                ledger.add(entry)
            }
            return try Invariants(
                schema: bench.schema, device: 0, facts: facts(bench), ledger: ledger, lost: [], refused: [],
                accepted: [], server: [], serverEpoch: "e"
            ).check().map(\.1)
        }
        #expect(try facts(bench).rows.rows.count == 1)
        #expect(try found() == [])
        try bench.sql("DELETE FROM board WHERE id = 'b'")
        try apply("INSERT INTO board (id, name) VALUES ('b', 'Kitchen garden')", bench)
        #expect(try found() == ["board b was deleted here and shows"])
        try bench.close()
    }
}
