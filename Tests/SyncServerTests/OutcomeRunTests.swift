import GRDB
import SyncCore
import Synchronization
import Testing

@testable import SyncServer

@Suite("Outcomes in runs")
struct OutcomeRunTests {
    private func creates(_ server: TestServer, _ numbers: ClosedRange<Int>, _ name: String = "A") -> [FieldValue] {
        numbers.map { server.create(Self.key($0), Int64($0), "board", "b\($0)", ["name": .string(name)]) }
    }

    private static func key(_ number: Int) -> String { "k\(100_000 + number)" }

    private func verdicts(_ answer: Answer) -> [String] {
        answer.results.map { $0["error"]["code"].string ?? $0["verdict"].string ?? "" }
    }

    private func rows(_ server: TestServer, _ sql: StaticString) throws -> Int {
        try server.service.inStore { state, _ in try state.store.statements.first(sql, []) { $0[0] as Int } ?? -1 }
    }

    @Test("repeated changes of a run are duplicates with what was told first, after a restart, too")
    func repeated() throws {
        let server = try TestServer()
        let first = try server.sync("d", creates(server, 1...100))
        #expect(verdicts(first) == Array(repeating: "applied", count: 100))
        #expect(try rows(server, "SELECT count(*) FROM outcome") == 0)
        #expect(try rows(server, "SELECT count(*) FROM outcome_run") == 4)
        for _ in 0..<2 {
            let again = try server.sync("d", creates(server, 1...100), from: 100)
            #expect(verdicts(again) == Array(repeating: "duplicate", count: 100))
            #expect(again.results.map { $0["version"] } == first.results.map { $0["version"] })
            #expect(again.results.allSatisfy { $0["first"] == "applied" })
            try server.restart()
        }
        let other = try server.sync("d", creates(server, 33...34, "B"), from: 100)
        #expect(verdicts(other) == ["keyReused", "keyReused"])
    }

    @Test("members, intent and a rejection are told again as they stood")
    func members() throws {
        let server = try TestServer()
        try server.sync("e", [server.create("x", 1, "board", "b1", ["name": "other"], at: 30_000)])
        let changes = [
            server.update("k1", 1, "board", "b1", ["name": (.null, "A")], at: 0, ["intent": "rename “it”"]),
            server.update("k2", 2, "board", "none", ["name": (.null, "A")]),
            server.update("k3", 3, "board", "b1", ["note": ("B", "C")], at: 40_000, ["intent": "note"]),
        ]
        let first = try server.sync("d", changes, from: 1)
        #expect(try rows(server, "SELECT count(*) FROM outcome_run") == 1)
        let again = try server.sync("d", changes, from: 1)
        for key in ["k1", "k2", "k3"] {
            guard case .object(var told) = again.result(key), case .object(let wanted) = first.result(key) else {
                Issue.record("\(key) was not told")
                continue
            }
            #expect(told.removeValue(forKey: "first") == wanted["verdict"])
            told["verdict"] = wanted["verdict"]
            #expect(told == wanted)
        }
    }

    @Test("IDS-10 what is settled of a run is expired, the rest of it a duplicate; it goes when all of it is settled")
    func settled() throws {
        let server = try TestServer()
        try server.sync("d", creates(server, 1...64))
        let answer = try server.sync("d", creates(server, 30...36), from: 64, ["settled": 33])
        let expired = Array(repeating: "expired", count: 4)
        #expect(verdicts(answer) == expired + ["duplicate", "duplicate", "duplicate"])
        #expect(try rows(server, "SELECT count(*) FROM outcome_run") == 1)
        // A key that was forgotten may be used again, below the highest.
        let forgotten = server.create(Self.key(33), 65, "board", "b65")
        #expect(try server.sync("d", [forgotten], from: 64).verdict(Self.key(33)) == "applied")
        #expect(try server.sync("d", [forgotten], from: 64).verdict(Self.key(33)) == "duplicate")
        try server.sync("d", [], from: 64, ["settled": 64])
        #expect(try rows(server, "SELECT count(*) FROM outcome_run") == 0)
    }

    @Test("a key of a run under a new sequence is found, though nobody looks keys up; a sequence of a run is taken")
    func knownInRun() throws {
        let server = try TestServer()
        try server.sync("d", creates(server, 1...40))
        try server.restart()
        let changes = creates(server, 41...43) + [server.create(Self.key(7), 44, "board", "b44")]
        let answer = try server.sync("d", changes, from: 40)
        #expect(verdicts(answer) == ["applied", "applied", "applied", "keyReused"])
        let taken = server.create("z", 7, "board", "b45")
        #expect(verdicts(try server.sync("d", [taken], from: 40)) == ["invalid"])
        #expect(try server.sync("x").records.count == 43)
    }

    @Test("outcomes of runs are forgotten after their time, others stay")
    func pruned() throws {
        let server = try TestServer()
        try server.sync("d", creates(server, 1...40))
        server.clock.advance(by: server.configuration.retention.outcomes - 1)
        try server.sync("d", creates(server, 41...50), from: 40)
        server.clock.advance(by: 1)
        try server.service.prune()
        #expect(try rows(server, "SELECT min(first) FROM outcome_run") == 41)
        #expect(try rows(server, "SELECT count(*) FROM outcome_run") == 1)
    }

    @Test("IDS-11 a file of the earlier layout, with outcomes in it: all of them are known, and runs come above them")
    func earlierLayout() throws {
        let server = try TestServer()
        // Keys that descend: each is a row of its own.
        let old = (1...40).map { server.create(Self.key(41 - $0), Int64($0), "board", "b\($0)") }
        let first = try server.sync("d", old)
        #expect(try rows(server, "SELECT count(*) FROM outcome") == 40)
        try server.restart { server in
            try DatabaseQueue(path: server.path).write { db in
                try db.execute(
                    sql: """
                        DROP TABLE outcome_run;
                        DROP INDEX leaving_record;
                        DELETE FROM grdb_migrations
                        WHERE identifier IN ('2 outcomes in runs', '3 leaves by record');
                        """)
            }
        }
        // Nobody looks these keys up before they are stored: their sequences are new.
        let reused = try server.sync("d", [server.create(Self.key(5), 41, "board", "x")] + creates(server, 42...44))
        #expect(verdicts(reused) == ["keyReused", "applied", "applied", "applied"])
        #expect(try rows(server, "SELECT count(*) FROM outcome_run") == 1)
        let again = try server.sync("d", old + creates(server, 42...44))
        #expect(verdicts(again) == Array(repeating: "duplicate", count: 43))
        #expect(again.results.prefix(40).map { $0["version"] } == first.results.map { $0["version"] })
        #expect(verdicts(try server.sync("d", [server.create("z", 7, "board", "y")])) == ["invalid"])
        try server.sync("d", [], ["settled": 42])
        #expect(try rows(server, "SELECT count(*) FROM outcome") == 0)
        let rest = try server.sync("d", creates(server, 42...44))
        #expect(verdicts(rest) == ["expired", "duplicate", "duplicate"])
    }

    private struct Crash: Error {}

    /// Two runs are there, one of them half settled by the request, which uses a forgotten key of it again, repeats what is
    /// left of it, and makes a run.
    private func halfSettled() throws -> (TestServer, [FieldValue]) {
        let server = try TestServer()
        try server.sync("d", creates(server, 1...40))
        let changes = creates(server, 41...45) + [server.create(Self.key(20), 46, "board", "b46")]
        return (server, creates(server, 21...22) + changes)
    }

    @Test("IDS-11 a crash where runs are made and forgotten: nothing half done, the repetition is done once")
    func crash() throws {
        let (whole, changes) = try halfSettled()
        let told = ["duplicate", "duplicate"] + Array(repeating: "applied", count: 6)
        #expect(verdicts(try whole.sync("d", changes, from: 40, ["settled": 20])) == told)
        let final = try whole.sync("reader").records
        for k in 1... {
            let (server, changes) = try halfSettled()
            let before = try server.sync("reader").records
            let count = Atomic(0)
            try server.service.onStatement {
                if count.add(1, ordering: .relaxed).newValue == k { throw Crash() }
            }
            let reply = try server.send("d", changes, from: 40, ["settled": 20])
            try server.service.onStatement(nil)
            guard count.load(ordering: .relaxed) >= k else { break }
            #expect(reply.status == 503, "statement \(k)")
            let after = try server.sync("reader").records
            #expect(after == before || after == final, "statement \(k)")
            if k % 2 == 0 { try server.restart() }
            let again = verdicts(try server.sync("d", changes, from: 40, ["settled": 20]))
            #expect(again == told || again == Array(repeating: "duplicate", count: 8), "statement \(k)")
            #expect(try server.sync("reader").records == final, "statement \(k)")
        }
    }

    /// What must hold of a device's outcomes, in whatever form they are kept.
    private struct Known {
        var sequences: [Int64: String] = [:]
        var keys: [String: (sequence: Int64, name: String)] = [:]
        var settled: Int64 = 0

        mutating func settle(_ sequence: Int64) {
            settled = max(settled, sequence)
            for (key, one) in keys where one.sequence <= settled {
                keys[key] = nil
                sequences[one.sequence] = nil
            }
        }

        mutating func verdict(_ key: String, _ sequence: Int64, _ name: String) -> String {
            if let known = keys[key] {
                return known.sequence == sequence && known.name == name ? "duplicate" : "keyReused"
            }
            if sequence <= settled { return "expired" }
            if sequences[sequence] != nil { return "invalid" }
            (sequences[sequence], keys[key]) = (key, (sequence, name))
            return "applied"
        }
    }

    @Test("keys in any order, repeated, reused and settled: told as if each were kept by itself", arguments: 0..<40)
    func histories(seed: UInt64) throws {
        let server = try TestServer(seed: seed)
        let chance = TestRandomness(seed: seed)
        func draw(_ count: Int) -> Int { Int(chance.next() % UInt64(count)) }
        let disorder = [0, 1, 5, 50][Int(seed % 4)]
        var known = Known()
        var past: [(key: String, sequence: Int64)] = []
        var next: Int64 = 0
        for round in 0..<30 {
            if draw(6) == 0 { try server.restart() }
            if draw(3) == 0 { known.settle(Int64(draw(Int(next) + 1))) }
            var asked: [(key: String, sequence: Int64, name: String)] = []
            for _ in 0...draw(draw(3) == 0 ? 70 : 5) {
                next += 1
                let key = draw(100) < disorder ? "k\(draw(2_000_000))" : Self.key(Int(next))
                asked.append((key, next, "A"))
            }
            for _ in 0..<draw(8) where !past.isEmpty {
                let old = past[draw(past.count)]
                let isOther = draw(4) == 0
                asked.append((old.key, draw(5) == 0 ? next + 1 : old.sequence, isOther ? "B" : "A"))
                if asked.last?.sequence == next + 1 { next += 1 }
            }
            if draw(4) == 0 { asked.swapAt(0, asked.count - 1) }
            var keys: Set<String> = []
            asked = asked.filter { keys.insert($0.key).inserted }
            let wanted = asked.map { known.verdict($0.key, $0.sequence, $0.name) }
            let changes = asked.map { one in
                server.create(one.key, one.sequence, "board", "\(one.key)-\(one.sequence)", ["name": .string(one.name)])
            }
            let answer = try server.sync("d", changes, from: 0, ["settled": .int(known.settled), "limit": 1])
            #expect(verdicts(answer) == wanted, "seed \(seed), round \(round)")
            past += asked.map { ($0.key, $0.sequence) }
        }
    }
}
