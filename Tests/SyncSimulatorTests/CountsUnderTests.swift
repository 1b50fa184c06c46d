import GRDB
import Storage
import SyncCore
import Testing

@testable import SyncSimulator

/// What waits of a record and of all that is under it is counted down from the record, as the store counts it up from each change.
@Suite struct CountsUnderTests {
    @Test("OBS-02 I8 a change counts, by its state, for its record and all that this stands under, by row or by delete")
    func family() throws {
        let bench = try Bench()
        try bench.sql(
            """
            INSERT INTO board (id, name) VALUES ('b', 'B');
            INSERT INTO list (id, idBoard, name) VALUES ('l', 'b', 'L'), ('m', 'b', 'M');
            INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'C'), ('d', 'l', 'D');
            DELETE FROM sync_change;
            UPDATE card SET name = 'E' WHERE id = 'c';
            UPDATE list SET name = 'N' WHERE id = 'm';
            DELETE FROM card WHERE id = 'd';
            UPDATE sync_change SET state = 4 WHERE entity = 'list';
            UPDATE sync_change SET state = 2 WHERE id = 'c';
            """)
        let check = try bench.store.database.read { try CountsUnder($0, bench.schema) }
        let expected: [RecordKey: StateCounts] = [
            RecordKey("board", "b"): StateCounts(failed: 1, uploading: 1, waiting: 1),
            RecordKey("list", "l"): StateCounts(uploading: 1, waiting: 1),
            RecordKey("list", "m"): StateCounts(failed: 1),
            RecordKey("card", "d"): StateCounts(waiting: 1),
            RecordKey("list", "nobody"): StateCounts(),
        ]
        for (record, counts) in expected {
            let seen = try bench.store.database.read { db in
                (check.counts(under: record), try Store.counts(db, under: record, bench.schema))
            }
            #expect(seen.0 == counts)
            #expect(seen.1 == counts)
        }
        let subjects = [(0, 0), (0, 1), (0, 9), (2, 1), (3, 0)].map { check.subject(at: $0, steps: $1)?.id }
        #expect(subjects == ["c", "l", "b", "l", nil])
        try bench.close()
    }
}
