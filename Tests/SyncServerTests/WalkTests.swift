import GRDB
import SyncCore
import SyncTesting
import Testing

@testable import SyncServer

@Suite("Records that are looked for one after another")
struct WalkTests {
    /// What a walk finds is what each look by itself would find.
    private func check(kept: [RecordKey], asked: [RecordKey], _ comment: Comment) throws {
        let queue = try DatabaseQueue()
        try Tables.migrator.migrate(queue)
        try queue.write { db in
            for (index, key) in kept.enumerated() {
                try db.execute(
                    sql: """
                        INSERT INTO record(account, entity, id, version, root, dead, stamp, at, activity, unit, fields, writes)
                        VALUES (1, ?, ?, ?, 1, 0, 0, 0, 0, 0, '', '')
                        """, arguments: [key.entity, key.id, index + 1])
            }
        }
        try queue.write { db in
            let statements = Statements(db)
            var walk = RecordWalk(statements: statements, account: 1)
            for key in asked {
                let found = try walk.first(key) { row in row[1] as Int64 }
                let here = kept.firstIndex(of: key).map { Int64($0 + 1) }
                #expect(found == here, "\(comment): \(key) among \(kept) after \(asked)")
            }
            walk.end()
            statements.finalize()
        }
    }

    private func keys(_ ids: [String], of entity: String = "card") -> [RecordKey] {
        ids.map { RecordKey(entity, $0) }
    }

    @Test("The next one, one in between, one behind the last, and an earlier one again")
    func order() throws {
        let kept = keys(["b", "d", "f"])
        try check(kept: kept, asked: keys(["b", "d", "f", "g", "h"]), "in order")
        try check(kept: kept, asked: keys(["a", "b", "c", "c1", "d", "e", "f", "g"]), "with gaps")
        try check(kept: kept, asked: keys(["f", "d", "b", "d", "d", "c", "a"]), "in no order")
        try check(kept: kept, asked: keys(["b", "f", "d", "e", "f", "b", "c", "f"]), "with leaps")
        try check(kept: [], asked: keys(["a", "b", "a"]), "where nothing is")
    }

    @Test("Records of another entity stand behind the last one")
    func entities() throws {
        let kept = keys(["a", "b"]) + keys(["a", "c"], of: "list") + keys(["b"], of: "board")
        let asked = [
            RecordKey("card", "a"), RecordKey("list", "a"), RecordKey("card", "b"), RecordKey("card", "c"),
            RecordKey("list", "b"), RecordKey("list", "c"), RecordKey("board", "b"), RecordKey("card", "c"),
        ]
        try check(kept: kept, asked: asked, "by turns")
    }

    @Test("Any records, asked for in any order")
    func any() throws {
        for seed in 1...60 as ClosedRange<UInt64> {
            var chance = SeededGenerator(seed: seed)
            let all = (0..<40).map { "\($0 < 10 ? "0" : "")\($0)" + ["", "-a-longer-one", "ä"][$0 % 3] }
            let kept = keys(all.filter { _ in .random(using: &chance) }.shuffled(using: &chance))
            var asked: [RecordKey] = []
            while asked.count < 80 {
                // Runs of neighbours, with leaps between them.
                let start = Int.random(in: 0..<40, using: &chance)
                let step = Int.random(in: 1...3, using: &chance)
                let run = stride(from: start, to: min(40, start + .random(in: 1...20, using: &chance)), by: step)
                asked += keys(run.map { all[$0] })
            }
            try check(kept: kept, asked: asked, "seed \(seed)")
        }
    }
}
