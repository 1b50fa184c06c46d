import Foundation
import GRDB
import SyncCore
import Synchronization
import Testing

@testable import SyncServer

@Suite("A crash at any statement")
struct CrashTests {
    private struct Crash: Error {}

    /// Stops at the k-th statement.
    private func stop(_ server: TestServer, at k: Int) throws -> @Sendable () -> Int {
        let count = Counter()
        try server.service.onStatement {
            if count.next() == k { throw Crash() }
        }
        return { count.value }
    }

    private final class Counter: Sendable {
        private let number = Atomic(0)
        var value: Int { number.load(ordering: .relaxed) }
        func next() -> Int { number.add(1, ordering: .relaxed).newValue }
    }

    @Test("PRC-22 each commit is on the disk before it is answered, unless somebody chose otherwise")
    func durability() throws {
        for choice in [ServerConfiguration.Synchronous.full, .normal] {
            let server = try TestServer { $0.synchronous = choice }
            let level = try server.service.state.with { state in
                try state?.queue.read { try Int.fetchOne($0, sql: "PRAGMA synchronous") }
            }
            #expect(level == (choice == .full ? 2 : 1))
        }
    }

    private func requests(_ server: TestServer) -> [FieldValue] {
        [
            server.update("k1", 11, "card", "c1", ["idList": ("l1", "l2"), "n": (0, 5)], at: 10),
            server.delete("k2", 12, "list", "l1", at: 11),
            server.create("k3", 13, "card", "c3", ["idList": "l2"], at: 12),
            server.update("k4", 14, "board", "none", ["x": (0, 1)], at: 13),
        ]
    }

    private func prepared() throws -> TestServer {
        let server = try TestServer()
        try server.sync(
            "d",
            [
                server.create("t1", 1, "board", "b1"), server.create("t2", 2, "list", "l1", ["idBoard": "b1"]),
                server.create("t3", 3, "list", "l2", ["idBoard": "b1"]),
                server.create("t4", 4, "card", "c1", ["idList": "l1", "n": 0]),
                server.create("t5", 5, "card", "c2", ["idList": "l1"]),
            ])
        return server
    }

    @Test("IDS-11 whatever the statement: a 503, nothing half done, and the repetition is done once")
    func everyStatement() throws {
        let whole = try prepared()
        let expected = try whole.sync("d", requests(whole), from: 5, ["settled": 5])
        let final = try whole.sync("reader").records
        var k = 1
        while true {
            let server = try prepared()
            let before = try server.sync("reader").records
            let count = try stop(server, at: k)
            let reply = try server.send("d", requests(server), from: 5, ["settled": 5])
            try server.service.onStatement(nil)
            if count() < k {
                #expect(reply.status == 200)
                break
            }
            #expect(reply.status == 503 && reply.cause != nil)
            #expect(reply[header: "Retry-After"] != nil)
            // A crash in the page comes after the commit; one before it must leave nothing.
            let after = try server.sync("reader").records
            #expect(after == before || after == final, "statement \(k)")
            if k % 2 == 0 { try server.restart() }
            let again = try server.sync("d", requests(server), from: 5, ["settled": 5])
            for (result, wanted) in zip(again.results, expected.results) {
                let isFirst = result == wanted
                let isRepeated = result["verdict"] == "duplicate" && result["first"] == wanted["verdict"]
                #expect(isFirst || isRepeated, "statement \(k)")
            }
            #expect(try server.sync("reader").records == final, "statement \(k)")
            k += 1
        }
        #expect(k > 20)
    }

    @Test("IDS-12 a REST write that failed inside the server has bound its key to nothing")
    func restKey() throws {
        let server = try prepared()
        let request = RESTRequest(
            method: "PUT", path: "/1/cards/c1", headers: [.init("Idempotency-Key", "\"k\"")],
            body: Array(#"{"n":7}"#.utf8))
        for k in 1... {
            let count = try stop(server, at: k)
            let reply = server.service.rest(account: "a", request: request)
            try server.service.onStatement(nil)
            if count() < k {
                #expect(reply.status == 200)
                #expect(reply[header: "Idempotency-Replayed"] == nil)
                break
            }
            #expect(reply.status == 503)
            #expect(try server.sync("reader").record("c1")?["version"] == 4)
        }
        #expect(server.service.rest(account: "a", request: request)[header: "Idempotency-Replayed"] == "true")
    }
}
