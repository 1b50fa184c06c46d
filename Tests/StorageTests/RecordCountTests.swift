import Storage
import SyncCore
import Testing

/// How many changes of a record, and of what is under it, are in which state: the indicator's counts.
struct RecordCountTests {
    @Test("DAT-11, OBS-02, seed 29605: what stands in a circle of parents counts for all that any of it stands under")
    func circle() async throws {
        let fixture = try Fixture(
            Schema([
                EntitySchema("board", fields: [.text("name")]),
                EntitySchema(
                    "note",
                    fields: [
                        .parent("idBoard", "board"),
                        FieldSchema("idAbove", kind: .text, reference: Reference(entity: "note", isParent: true)),
                    ]),
            ]))
        try fixture.sql(
            """
            INSERT INTO board (id, name) VALUES ('b1', 'One'), ('b2', 'Two');
            INSERT INTO note (id, idBoard) VALUES ('n1', 'b1'), ('n2', 'b2'), ('n3', 'b2');
            DELETE FROM sync_change;
            UPDATE note SET idAbove = 'n1' WHERE id = 'n3';
            UPDATE note SET idAbove = 'n3' WHERE id = 'n2';
            UPDATE note SET idAbove = 'n2' WHERE id = 'n1';
            """)
        for id in ["b1", "b2"] {
            #expect(try await fixture.store.counts(for: RecordKey("board", id)) == StateCounts(waiting: 3))
        }
        #expect(try await fixture.store.counts(for: RecordKey("note", "n3")) == StateCounts(waiting: 3))
        #expect(try await fixture.store.counts(for: RecordKey("board", "b3")) == StateCounts())
        try await fixture.store.close()
    }
}
