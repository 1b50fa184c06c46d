import SyncCore
import Testing

@testable import SyncServer

@Suite("Hints")
struct EventTests {
    @Test("a commit is told to the account's streams, with the scopes it touched, and to nobody else")
    func notices() async throws {
        let server = try TestServer()
        try server.sync("d", [server.create("t1", 1, "board", "b1"), server.create("t2", 2, "board", "b2")])
        let mine = server.service.events(account: "a")
        let theirs = server.service.events(account: "other")
        try server.sync("d", [server.create("k1", 3, "list", "l1", ["idBoard": "b1"])], from: 2)
        var iterator = mine.makeAsyncIterator()
        let notice = try #require(await iterator.next())
        #expect(notice == CommitNotice(account: "a", version: 3, scopes: ["board:b1"]))
        #expect(String(decoding: notice.json, as: UTF8.self) == #"{"currentSyncVersion":3,"scopes":["board:b1"]}"#)
        try server.sync("d", [server.update("k2", 4, "list", "l1", ["idBoard": ("b1", "b2")], at: 1)], from: 3)
        #expect(await iterator.next()?.scopes == ["board:b1", "board:b2"])
        let request = RESTRequest(method: "PUT", path: "/1/boards/b1", body: Array(#"{"n":1}"#.utf8))
        _ = server.service.rest(account: "a", request: request)
        #expect(await iterator.next() == CommitNotice(account: "a", version: 5, scopes: ["board:b1"]))
        try server.service.close()
        #expect(await iterator.next() == nil)
        var other = theirs.makeAsyncIterator()
        #expect(await other.next() == nil)
        #expect(server.service.sync(account: "a", body: []).status == 400)
        #expect(server.service.rest(account: "a", request: request).status == 503)
    }

    @Test("a slow listener gets one notice for all that it missed, with the scopes of all; of too many none")
    func slow() async throws {
        let server = try TestServer { $0.synchronous = .normal }
        let stream = server.service.events(account: "a")
        func create(_ indices: ClosedRange<Int>) throws {
            for index in indices {
                try server.sync("d", [server.create("k\(index)", Int64(index), "board", "b\(index)")])
            }
        }
        try create(1...100)
        var iterator = stream.makeAsyncIterator()
        let first = await iterator.next()
        #expect(first?.version == 100 && first?.scopes == (1...100).map { "board:b\($0)" }.sorted())
        try create(101...400)
        #expect(await iterator.next() == CommitNotice(account: "a", version: 400, scopes: []))
        try create(401...401)
        #expect(await iterator.next() == CommitNotice(account: "a", version: 401, scopes: ["board:b401"]))
    }

    @Test("an empty sync touches nothing, and is answered from memory as from the file")
    func emptySync() throws {
        let server = try TestServer()
        let first = try server.sync("d", [server.create("k1", 1, "board", "b1")])
        let fromMemory = try server.sync("d", from: 1)
        try server.restart()
        let fromFile = try server.sync("d", from: 1)
        #expect(fromMemory.value == fromFile.value)
        #expect(fromMemory.version == 1)
        #expect(fromMemory["dataset"] == first["dataset"])
    }
}
