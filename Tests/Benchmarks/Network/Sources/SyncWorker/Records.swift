import Ferry
import GRDB

/// The records of the measurement: cards of about 200 bytes as JSON, deterministic and not too compressible.
struct Records {
    let store: Store

    static func schema() throws -> Schema {
        try Schema([
            EntitySchema("board", fields: [.text("name")]),
            EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name")]),
            EntitySchema(
                "card",
                fields: [
                    .parent("idList", "list"), .text("name"), .text("desc"), .boolean("closed"), .date("due"),
                    .real("pos"),
                ]),
        ])
    }

    func addBoard() throws {
        try store.database.write { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b-1', 'Work')")
            try db.execute(sql: "INSERT INTO list (id, idBoard, name) VALUES ('l-1', 'b-1', 'To do')")
        }
    }

    /// Each card in a transaction of its own, as an app's user makes them.
    /// - Parameter isInOrder: ids are UUIDs of version 7, a millisecond apart, as DESIGN.md has them (D3), and not in any order.
    func add(_ count: Int, salt: String, isInOrder: Bool = false) throws {
        for index in 0..<count {
            let h = Self.hex("\(salt)\(index)")
            let id = isInOrder ? Self.timed(index, h) : Self.random(h)
            try store.database.write { db in
                let statement = try db.cachedStatement(
                    sql: """
                        INSERT INTO card (id, idList, name, desc, closed, due, pos) VALUES (?, 'l-1', ?, ?, ?, ?, ?)
                        """)
                try statement.execute(arguments: [
                    id, "Task \(index) \(h.dropFirst(24).prefix(8))",
                    "buy \(h.prefix(8)) and call \(h.dropFirst(8).prefix(8)) before \(h.dropFirst(16).prefix(8))",
                    index % 3 == 0, "2026-11-\(10 + index % 19)T08:00:00.000Z", Double(index),
                ])
            }
        }
    }

    /// One field of every card, each in a transaction of its own.
    func editAll() throws {
        let cards = try store.database.read { try Row.fetchAll($0, sql: "SELECT id, name FROM card") }
        for (index, card) in cards.enumerated() {
            try store.database.write { db in
                try db.cachedStatement(sql: "UPDATE card SET name = ? WHERE id = ?")
                    .execute(arguments: ["edited \(index) \(card["name"] as String)", card["id"] as String])
            }
        }
    }

    func counts() throws -> (all: Int, edited: Int) {
        try store.database.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM card") ?? 0,
                try Int.fetchOne(db, sql: "SELECT count(*) FROM card WHERE name LIKE 'edited%'") ?? 0
            )
        }
    }

    private static func random(_ h: String) -> String {
        "\(h.prefix(8))-\(h.dropFirst(8).prefix(4))-4000-8000-\(h.dropFirst(12).prefix(12))"
    }

    private static func timed(_ index: Int, _ h: String) -> String {
        let time = String(1_795_000_000_000 + index, radix: 16)
        let digits = String(repeating: "0", count: 12 - time.count) + time
        return "\(digits.prefix(8))-\(digits.dropFirst(8))-7\(h.prefix(3))-8000-\(h.dropFirst(12).prefix(12))"
    }

    /// 32 hex digits of a text (two rounds of FNV-1a, mixed).
    private static func hex(_ text: String) -> String {
        var result = ""
        for round in 1...2 {
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325 &* UInt64(round)
            for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
            hash = (hash ^ (hash >> 31)) &* 0x9e37_79b9_7f4a_7c15
            hash ^= hash >> 29
            let digits = String(hash, radix: 16)
            result += String(repeating: "0", count: 16 - digits.count) + digits
        }
        return result
    }
}
