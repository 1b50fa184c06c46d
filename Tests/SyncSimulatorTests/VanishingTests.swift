import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What a device shows no more, and what it shows over the server's word.
@Suite struct VanishingTests {
    private let list = RecordKey("list", "l")
    private let card = RecordKey("card", "c")

    /// A device with a board, a list and a card of others', looked at once.
    private func seen() throws -> (bench: Bench, vanishings: Vanishings) {
        let bench = try Bench()
        try bench.holdCard()
        var vanishings = Vanishings()
        #expect(try look(&vanishings, bench).isEmpty)
        return (bench, vanishings)
    }

    private func look(_ vanishings: inout Vanishings, _ bench: Bench, isNotHeld: Bool = false) throws -> [RecordKey] {
        try vanishings.unexplained(bench.facts(), bench.ledger, bench.schema, refused: []) { _ in isNotHeld }
    }

    @Test("I11 a row that goes for no reason is found, with nothing said of what stood under it")
    func absence() throws {
        let (bench, start) = try seen()
        var vanishings = start
        try bench.sql("DELETE FROM card; DELETE FROM list; DELETE FROM sync_change")
        #expect(try look(&vanishings, bench) == [list])
        #expect(try look(&vanishings, bench).isEmpty)
        try bench.close()
    }

    @Test(
        "I11 a delete of the app's, a tombstone, the server's word, what is held, a full pass and a choice of roots are reasons"
    )
    func reasons() throws {
        func found(isNotHeld: Bool = false, _ reason: (Bench, inout Vanishings) throws -> Void) throws -> [RecordKey] {
            let (bench, start) = try seen()
            var vanishings = start
            try reason(bench, &vanishings)
            try bench.sql("DELETE FROM card; DELETE FROM sync_change")
            let found = try look(&vanishings, bench, isNotHeld: isNotHeld)
            try bench.close()
            return found
        }
        #expect(try found { _, _ in } == [card])
        #expect(try found { bench, _ in try bench.write("DELETE FROM card") }.isEmpty)
        #expect(try found { bench, _ in try bench.write("UPDATE card SET name = 'D'") } == [card])
        #expect(
            try found { _, vanishings in
                vanishings.heard([ServerRecord(key: card, version: 3, presence: .deleted)])
            }.isEmpty)
        #expect(try found { _, vanishings in vanishings.heard([ServerRecord(key: card, version: 3)]) } == [card])
        #expect(try found { _, vanishings in vanishings.missed([card]) }.isEmpty)
        #expect(try found { _, vanishings in vanishings.missed([list]) } == [card])
        #expect(try found(isNotHeld: true) { _, _ in }.isEmpty)
        #expect(
            try found { bench, _ in
                try bench.sql(
                    """
                    INSERT INTO sync_held (entity, id, version, reason, record) VALUES ('card', 'c', 3, 'parent', '{}')
                    """)
            }.isEmpty)
        #expect(
            try found { bench, _ in
                try bench.sql(
                    """
                    INSERT INTO sync_meta (key, value) VALUES ('pass', 1) ON CONFLICT (key) DO UPDATE SET value = 1
                    """)
            }.isEmpty)
        #expect(try found { _, vanishings in vanishings.chose() }.isEmpty)
        #expect(try found { _, vanishings in vanishings.restored() }.isEmpty)
    }

    @Test("I11 of roots that are held all the time nothing goes; what stood under another may")
    func roots() throws {
        for (asked, isFound) in [("b", true), ("other", false)] {
            let (bench, start) = try seen()
            var vanishings = start
            try bench.sql(
                "INSERT INTO sync_meta (key, value) VALUES ('scopes', '{\"asked\":{\"board:\(asked)\":4}}')")
            #expect(try look(&vanishings, bench).isEmpty)
            try bench.sql("DELETE FROM card; DELETE FROM sync_change")
            #expect(try look(&vanishings, bench) == (isFound ? [card] : []))
            try bench.close()
        }
    }

    @Test(
        "I11 what is above it went back under a root that is not held: then it may go, though it stood under one that is"
    )
    func wentBack() throws {
        for isBack in [false, true] {
            let (bench, start) = try seen()
            var vanishings = start
            try bench.sql(
                "INSERT INTO board (id, name) VALUES ('other', 'O');"
                    + "INSERT INTO sync_meta (key, value) VALUES ('scopes', '{\"asked\":{\"board:b\":4}}')")
            #expect(try look(&vanishings, bench).isEmpty)
            if isBack { try bench.sql("UPDATE list SET idBoard = 'other'") }
            try bench.sql("DELETE FROM card; DELETE FROM sync_change")
            #expect(try look(&vanishings, bench) == (isBack ? [] : [card]))
            try bench.close()
        }
    }

    @Test(
        "I6 under a sum or a union a record shows the server's value with what is unsent on top, and else the last of both"
    )
    func unsentOverBase() throws {
        let bench = try Bench()
        try bench.sql(
            """
            INSERT INTO board (id, name) VALUES ('b', 'B');
            INSERT INTO list (id, idBoard, name) VALUES ('l', 'b', 'L');
            INSERT INTO card (id, idList, name, votes, labels) VALUES ('c', 'l', 'C', 3, '["x"]');
            DELETE FROM sync_change; DELETE FROM sync_record;
            INSERT INTO sync_record (entity, id, version) VALUES ('card', 'c', 5);
            INSERT INTO sync_meta (key, value) VALUES ('epoch', 'e'), ('checkpoint', 5)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value;
            """)
        let before: [String: FieldValue] = ["votes": 3, "labels": ["x"]]
        try bench.write(
            "UPDATE card SET votes = 5, labels = '[\"y\"]'", ["votes": 5, "labels": ["y"]], over: before)
        // Another device's page came between: three more, and one more element.
        try bench.sql("UPDATE sync_clock SET applying = 1; UPDATE card SET votes = 8, labels = '[\"z\",\"y\"]'")
        func found(_ version: Int64 = 5, accepted: Set<String> = []) throws -> [String] {
            let server = ServerRecord(
                key: card, version: version, fields: ["idList": "l", "name": "C", "votes": 6, "labels": ["x", "z"]])
            return try bench.found([server], accepted: accepted).filter { $0.contains("server's record") }
        }
        #expect(try found().isEmpty)
        for wrong in ["votes = 6", "votes = 5", "labels = '[\"z\"]'", "labels = '[\"x\",\"z\",\"y\"]'", "name = 'D'"] {
            try bench.sql("UPDATE card SET votes = 8, labels = '[\"z\",\"y\"]', name = 'C'; UPDATE card SET \(wrong)")
            #expect(try found().count == 1, "\(wrong)")
        }
        // The device is behind, or the server has decided: then its value is not what is under the unsent.
        #expect(try found(6).isEmpty)
        #expect(try found(accepted: Set(bench.ledger.entries.keys)).isEmpty)
        try bench.close()
    }
}
