import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What a device shows again after its app deleted it.
@Suite struct ReappearanceTests {
    private let card = RecordKey("card", "c")

    /// A device whose app deletes a card, looked at before and after.
    /// - Returns: the delete's key, too.
    private func deleted(_ reappearances: inout Reappearances) throws -> (bench: Bench, key: String) {
        let bench = try Bench()
        try bench.holdCard()
        #expect(try look(&reappearances, bench).isEmpty)
        let key = try bench.write("DELETE FROM card")
        #expect(try look(&reappearances, bench).isEmpty)
        try bench.sql("DELETE FROM sync_change")
        return (bench, key)
    }

    private func look(
        _ reappearances: inout Reappearances, _ bench: Bench, accepted: Set<String> = []
    ) throws -> [RecordKey] {
        try reappearances.unexplained(bench.facts(), bench.ledger, accepted: accepted)
    }

    /// What is found where the row is back for this reason.
    private func found(
        isAccepted: Bool = true, _ reason: (Bench, inout Reappearances, String) throws -> Void
    ) throws -> [RecordKey] {
        var reappearances = Reappearances()
        let (bench, key) = try deleted(&reappearances)
        try reason(bench, &reappearances, key)
        try bench.sql(
            "INSERT OR IGNORE INTO card (id, idList, name) VALUES ('c', 'l', 'C'); DELETE FROM sync_change")
        let found = try look(&reappearances, bench, accepted: isAccepted ? [key] : [])
        #expect(try look(&reappearances, bench, accepted: [key]).isEmpty, "it is told once")
        try bench.close()
        return found
    }

    @Test("I6 a row is back whose delete the server has done, for no reason: that is found")
    func noReason() throws {
        #expect(try found { _, _, _ in } == [card])
        #expect(
            try found { _, reappearances, _ in
                reappearances.heard([ServerRecord(key: card, version: 3, presence: .deleted)])
            } == [card])
    }

    @Test(
        "I6 the server's word, a delete that is refused, taken back or undecided, a create and a full pass are reasons")
    func reasons() throws {
        #expect(try found(isAccepted: false) { _, _, _ in }.isEmpty)
        #expect(
            try found { _, reappearances, _ in
                reappearances.heard([ServerRecord(key: card, version: 3)])
            }.isEmpty)
        #expect(try found { _, reappearances, _ in reappearances.leftOpen(of: [card]) }.isEmpty)
        #expect(try found { bench, _, key in bench.ledger.set(.undone, for: [key]) }.isEmpty)
        #expect(
            try found { bench, _, _ in
                try bench.write("INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'C')")
            }.isEmpty)
        #expect(
            try found { bench, _, _ in
                try bench.sql(
                    """
                    INSERT INTO sync_meta (key, value) VALUES ('pass', 1) ON CONFLICT (key) DO UPDATE SET value = 1
                    """)
            }.isEmpty)
        #expect(try found { _, reappearances, _ in reappearances.chose() }.isEmpty)
        #expect(try found { _, reappearances, _ in reappearances.restored() }.isEmpty)
    }

    @Test("I6 what was told to live before it was deleted is no reason")
    func toldBefore() throws {
        var reappearances = Reappearances()
        reappearances.heard([ServerRecord(key: card, version: 2)])
        let (bench, key) = try deleted(&reappearances)
        try bench.sql("INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'C'); DELETE FROM sync_change")
        #expect(try look(&reappearances, bench, accepted: [key]) == [card])
        try bench.close()
    }
}
