import Dispatch
import Foundation
import SyncCore
import Testing

@testable import SyncServer

@Suite("Many at once")
struct CrowdTests {
    @Test("I10 accounts whose names differ only in how an accent is composed are two, also for who listens")
    func composedNames() async throws {
        let server = try TestServer()
        let (one, other) = ("caf\u{e9}", "cafe\u{301}")
        #expect(one == other)
        var heard = server.service.events(account: other).makeAsyncIterator()
        server.account = one
        let first = try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "mine"])])
        server.account = other
        let second = try server.sync("d")
        #expect(second.records.isEmpty)
        #expect(second["dataset"] != first["dataset"])
        try server.sync("d", [server.create("k1", 1, "board", "b2"), server.create("k2", 2, "board", "b3")])
        #expect(await heard.next()?.scopes == ["board:b2", "board:b3"])
        server.account = one
        #expect(try server.sync("d").records.compactMap { $0["id"].string } == ["b1"])
    }

    @Test("DL-06 16 writers and 4 readers with tiny pages: nothing is missed, no version is told twice")
    func writersAndReaders() throws {
        let server = try TestServer { $0.synchronous = .normal }
        let service = server.service
        let stamp = server.stamp(0)
        let readers = Guarded([[String: Int64]](repeating: [:], count: 4))
        let faults = Guarded([String]())
        DispatchQueue.concurrentPerform(iterations: 20) { worker in
            do {
                if worker < 16 {
                    for round in 0..<25 {
                        let change = """
                            {"changeID":"w\(worker)-\(round)","sequence":\(round + 1),"entity":"board",\
                            "id":"b\(worker)-\(round)","operation":"create","stamp":"\(stamp)","fields":{"n":{"new":1}}}
                            """
                        let reply = service.sync(account: "a", body: body("w\(worker)", 0, 1, change))
                        if reply.status != 200 { faults.with { $0.append("writer \(reply.status)") } }
                    }
                } else {
                    var checkpoint: Int64 = 0
                    for _ in 0..<120 {
                        let page = try Answer(service.sync(account: "a", body: body("r\(worker)", checkpoint, 3, "")))
                        for record in page.records {
                            let id = record["id"].string ?? ""
                            readers.with { $0[worker - 16][id] = record["version"].int }
                        }
                        checkpoint = page.version
                    }
                    while true {
                        let page = try Answer(service.sync(account: "a", body: body("r\(worker)", checkpoint, 7, "")))
                        for record in page.records {
                            let id = record["id"].string ?? ""
                            readers.with { $0[worker - 16][id] = record["version"].int }
                        }
                        checkpoint = page.version
                        if page["hasMore"] == false, checkpoint == 400 { break }
                    }
                }
            } catch {
                faults.with { $0.append("\(error)") }
            }
        }
        #expect(faults.with { $0 } == [])
        for seen in readers.with({ $0 }) {
            #expect(seen.count == 400)
            #expect(Set(seen.values).count == 400)
        }
    }

    private func body(_ device: String, _ checkpoint: Int64, _ limit: Int, _ change: String) -> [UInt8] {
        Array(
            """
            {"protocol":1,"cycleID":"c","deviceID":"\(device)","lastSyncVersion":\(checkpoint),"limit":\(limit),\
            "dirtyRecords":[\(change)]}
            """.utf8)
    }

    @Test("of many PUTs with one If-Match exactly one wins; of many repeats of one key there is one effect")
    func oneWins() throws {
        let server = try TestServer { $0.synchronous = .normal }
        let service = server.service
        let make = RESTRequest(method: "POST", path: "/1/boards", body: Array(#"{"id":"b1"}"#.utf8))
        #expect(service.rest(account: "a", request: make).status == 201)
        let statuses = Guarded([Int]())
        DispatchQueue.concurrentPerform(iterations: 16) { worker in
            let put = RESTRequest(
                method: "PUT", path: "/1/boards/b1", headers: [.init("If-Match", "\"1\"")],
                body: Array(#"{"n":\#(worker)}"#.utf8))
            let status = service.rest(account: "a", request: put).status
            statuses.with { $0.append(status) }
        }
        #expect(statuses.with { $0 }.sorted() == [200] + Array(repeating: 412, count: 15))
        let replies = Guarded([ServerReply]())
        DispatchQueue.concurrentPerform(iterations: 16) { _ in
            let put = RESTRequest(
                method: "PUT", path: "/1/boards/b1", headers: [.init("Idempotency-Key", "\"k\"")],
                body: Array(#"{"n":99}"#.utf8))
            let reply = service.rest(account: "a", request: put)
            replies.with { $0.append(reply) }
        }
        #expect(Set(replies.with { $0 }.map(\.body)).count == 1)
        #expect(replies.with { $0 }.filter { $0[header: "Idempotency-Replayed"] == nil }.count == 1)
        #expect(try service.currentVersion(account: "a") == 3)
    }
}

@Suite("Hostile bytes")
struct HostileTests {
    @Test("SEC-17 a mutated request is answered, and never with a 500 or 503; the next honest one is answered")
    func mutations() throws {
        let server = try TestServer { $0.synchronous = .normal }
        let randomness = TestRandomness(seed: 42)
        let honest = String(
            decoding: try FieldValue.object([
                "protocol": 1, "cycleID": "c", "deviceID": "d", "lastSyncVersion": 0, "settled": 0, "limit": 5,
                "dirtyRecords": [
                    server.create("k1", 1, "board", "b1", ["n": 1, "tags": ["a"]]),
                    server.update("k2", 2, "board", "b1", ["n": (1, 2)], rule: "sum", ["transaction": "u"]),
                    server.update(
                        "k3", 3, "board", "b1", ["tags": (["a"], ["b"])], rule: "union", ["transaction": "u"]),
                    server.delete("k4", 4, "board", "b1"),
                ],
            ]).json(), as: UTF8.self)
        let pieces = [
            "\"", "{", "}", "[", "]", ",", ":", "null", "-1", "1e999", "\\u0000", "\u{ff}", "99999999999999999999",
        ]
        for _ in 0..<3_000 {
            var bytes = Array(honest.utf8)
            for _ in 0...Int(randomness.next() % 3) {
                let place = Int(randomness.next() % UInt64(bytes.count))
                switch randomness.next() % 4 {
                case 0: bytes[place] = UInt8(truncatingIfNeeded: randomness.next())
                case 1: bytes.remove(at: place)
                case 2: bytes.insert(contentsOf: pieces[Int(randomness.next() % UInt64(pieces.count))].utf8, at: place)
                default: bytes.removeLast(bytes.count - max(place, 1))
                }
            }
            let reply = server.service.sync(account: "a", body: bytes)
            #expect([200, 400, 410].contains(reply.status), "\(String(decoding: bytes, as: UTF8.self))")
        }
        #expect(try server.sync("honest", [server.create("h", 1, "board", "honest")]).verdict("h") == "applied")
    }

    @Test("SEC-17 wide changes and long names are bounded")
    func width() throws {
        let server = try TestServer()
        let wide = Dictionary(uniqueKeysWithValues: (0..<5_000).map { ("f\($0)", FieldValue.int(1)) })
        let answer = try server.sync(
            "d", [server.create("k1", 1, "board", "b1", wide), server.create("k2", 2, "board", "b2")])
        #expect(answer.result("k1")["error"]["code"] == "tooLarge")
        #expect(answer.verdict("k2") == "applied")
        let deep = String(repeating: "[", count: 100_000)
        #expect(server.service.sync(account: "a", body: Array(deep.utf8)).status == 400)
        let large = [UInt8](repeating: UInt8(ascii: " "), count: (8 << 20) + 1)
        #expect(server.service.sync(account: "a", body: large).status == 413)
    }

    @Test("a record grows to its limit and no further; the page still comes")
    func recordSize() throws {
        let server = try TestServer { $0.synchronous = .normal }
        let piece = FieldValue.string(String(repeating: "x", count: 1_000_000))
        try server.sync("d", [server.create("k0", 1, "board", "b1")])
        var verdicts: [String?] = []
        // 14 of the 16 MiB in two requests, then by one MB.
        for (index, count) in [7, 7, 1, 1, 1, 1].enumerated() {
            let pieces = Dictionary(
                uniqueKeysWithValues: (0..<count).map { ("f\(index)-\($0)", (FieldValue.null, piece)) })
            let (key, head) = ("k\(index + 1)", try server.service.currentVersion(account: "a"))
            let change = server.update(key, Int64(index + 2), "board", "b1", pieces, at: Int64(index + 1))
            verdicts.append(try server.sync("d", [change], from: head).verdict(key))
        }
        #expect(verdicts == ["applied", "applied", "applied", "applied", "rejected", "rejected"])
        #expect(try server.sync("e").records.count == 1)
    }
}
