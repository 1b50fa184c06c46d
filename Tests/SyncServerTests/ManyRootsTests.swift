import SyncCore
import Testing

@testable import SyncServer

@Suite("Pages of many roots")
struct ManyRootsTests {
    private static let boards = (0..<8).map { "b\($0)" }

    /// Boards with a list each, and cards that are made, edited and moved among them; units of a few changes among them.
    private func crowded(_ seed: UInt64) throws -> (server: TestServer, middle: Int64) {
        // Requests of few changes, so that little of each root is read at once.
        let server = try TestServer(seed: seed) { $0.limits.dirtyRecords = 10 }
        var changes: [FieldValue] = []
        var sequence: Int64 = 0
        func next() -> (String, Int64) {
            sequence += 1
            return ("k\(sequence)", sequence)
        }
        func chance(_ most: Int) -> Int { Int(server.randomness.next() % UInt64(most)) }
        for (index, board) in Self.boards.enumerated() {
            var (key, number) = next()
            changes.append(server.create(key, number, "board", board, at: number))
            (key, number) = next()
            changes.append(server.create(key, number, "list", "l\(index)", ["idBoard": .string(board)], at: number))
        }
        for start in stride(from: 0, to: changes.count, by: 10) {
            try server.sync("d", Array(changes[start..<min(start + 10, changes.count)]))
        }
        var middle: Int64 = 0
        for round in 0..<40 {
            if round == 20 { middle = try server.service.currentVersion(account: "a") }
            let more: [String: FieldValue] = chance(3) == 0 ? ["transaction": .string("u\(round)")] : [:]
            var sent: [FieldValue] = []
            for place in 0...chance(6) {
                let (key, number) = next()
                // Roots of very different sizes: half of all goes to the first.
                let list = FieldValue.string("l\(chance(2) == 0 ? 0 : chance(8))")
                if round < 10 || chance(4) == 0 {
                    sent.append(
                        server.create(key, number, "card", "c\(round)-\(place)", ["idList": list], at: number, more))
                } else if chance(6) == 0 {
                    let board = FieldValue.string(Self.boards[chance(8)])
                    sent.append(
                        server.update(
                            key, number, "list", "l\(chance(8))", ["idBoard": (.null, board)], at: number, more))
                } else {
                    let card = "c\(chance(10))-0"
                    sent.append(server.update(key, number, "card", card, ["idList": (.null, list)], at: number, more))
                }
            }
            try server.sync("d", sent)
        }
        return (server, middle)
    }

    private func ask(
        _ server: TestServer, _ checkpoints: [String: Int64], limit: Int64
    ) throws -> Answer {
        let scopes = checkpoints.map { ("board:\($0.key)", FieldValue.int($0.value)) }
        return try server.sync(
            "e", [], from: 0,
            ["scopes": .object(Dictionary(uniqueKeysWithValues: scopes)), "limit": .int(limit)])
    }

    @Test("DL-08 pages of many roots bring what one page of all brings, in version order", arguments: 1...30)
    func sameAsAtOnce(seed: UInt64) throws {
        let (server, middle) = try crowded(seed)
        var checkpoints: [String: Int64] = [:]
        for board in Self.boards where server.randomness.next() % 3 > 0 {
            checkpoints[board] = server.randomness.next() % 2 == 0 ? 0 : middle
        }
        let whole = try ask(server, checkpoints, limit: 2_000)
        #expect(whole["hasMore"] == false)

        var told: [String: FieldValue] = [:]
        while !checkpoints.isEmpty {
            let page = try ask(server, checkpoints, limit: 3)
            let versions = page.records.compactMap { $0["version"].int }
            #expect(versions == versions.sorted() && Set(versions).count == versions.count)
            #expect((versions.last ?? 0) <= page.version)
            for record in page.records {
                let key = "\(record["entity"].string ?? "") \(record["id"].string ?? "")"
                #expect((told[key]?["version"].int ?? 0) < (record["version"].int ?? 0), "\(key) again")
                told[key] = record
            }
            guard page["hasMore"] == true else { break }
            try #require(page.version > checkpoints.values.min() ?? 0, "more without progress")
            checkpoints = checkpoints.mapValues { max($0, page.version) }
        }
        // Who asks on from a page is told what left since, also of a root that began with nothing.
        for record in whole.records {
            let key = "\(record["entity"].string ?? "") \(record["id"].string ?? "")"
            let last = told.removeValue(forKey: key)
            #expect(record["gone"] == true ? last?["gone"] == true : last == record, "\(key)")
        }
        #expect(told.values.allSatisfy { $0["gone"] == true })
    }

    /// So many boards.
    private func boards(_ count: Int) throws -> TestServer {
        let server = try TestServer()
        for start in stride(from: 0, to: count, by: 1_000) {
            let changes = (start..<min(start + 1_000, count)).map { number in
                server.create("k\(number)", Int64(number + 1), "board", "b\(number)")
            }
            try server.sync("d", changes, from: Int64(start))
        }
        return server
    }

    @Test("a request asks for as many roots as its bytes hold, and only its bytes bound it")
    func asManyAsFit() throws {
        let server = try TestServer { $0.limits.requestBytes = 512 << 10 }
        try server.sync("d", [server.create("k1", 1, "board", "b19999")])
        let checkpoints = Dictionary(uniqueKeysWithValues: (0..<20_000).map { ("b\($0)", Int64(0)) })
        #expect(try ask(server, checkpoints, limit: 10).records.map { $0["id"] } == ["b19999"])
        let more = checkpoints.merging((20_000..<40_000).map { ("b\($0)", Int64(0)) }) { $1 }
        let scopes = Dictionary(uniqueKeysWithValues: more.map { ("board:\($0.key)", FieldValue.int($0.value)) })
        #expect(try server.send("e", [], from: 0, ["scopes": .object(scopes)]).status == 413)
    }

    @Test("what a page asks of the file grows with its roots and not faster")
    func linear() throws {
        let server = try boards(4_000)
        let reads = Guarded(0)
        func statements(_ count: Int) throws -> Int {
            let checkpoints = Dictionary(uniqueKeysWithValues: (0..<count).map { ("b\($0)", Int64(0)) })
            reads.with { $0 = 0 }
            #expect(try ask(server, checkpoints, limit: 500).records.count == 500)
            return reads.with { $0 }
        }
        try server.service.onStatement { reads.with { $0 += 1 } }
        let (few, many) = (try statements(1_000), try statements(4_000))
        #expect(many < 5 * few, "\(few) for 1,000 roots, \(many) for 4,000")
    }
}
