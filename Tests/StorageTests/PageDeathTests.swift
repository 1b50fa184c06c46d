import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("A page that kills the process")
struct PageDeathTests {
    @Test("PRC-21 after three deaths in the same page the next is half as long, and again; progress brings it back")
    func deaths() async throws {
        let file = try TestFile()
        var limits: [Int] = []
        for _ in 0..<8 {
            // Each opening is a process that asks for a page and dies over it.
            let f = try Fixture(file: file)
            limits.append(try await f.store.beginPage(limit: 1_000))
            try f.store.database.close()
        }
        #expect(limits == [1_000, 1_000, 1_000, 500, 500, 500, 250, 250])
        let f = try Fixture(file: file)
        #expect(try await f.store.beginPage(limit: 1_000) == 250)
        try await f.apply(record("board", "b1", 4, ["name": "A"]))
        try await f.store.endPage()
        #expect(try await f.store.beginPage(limit: 1_000) == 1_000)
        try await f.store.endPage()
        // An end without news is no death.
        #expect(try await f.store.beginPage(limit: 1_000) == 1_000)
        try await f.store.endPage()
        try await f.store.close()
    }

    @Test("PRC-21 however often it dies, a page has a record")
    func least() async throws {
        let f = try Fixture()
        var limit = 0
        for _ in 0..<100 { limit = try await f.store.beginPage(limit: 8) }
        #expect(limit == 1)
    }

    @Test("PRC-21 asking again and again whether there is news writes nothing; the end is noted with the next write")
    func idle() async throws {
        let file = try TestFile()
        let f = try Fixture(file: file)
        let other = try DatabaseQueue(path: file.path)
        _ = try await f.store.beginPage(limit: 8)
        try await f.store.endPage()
        let before = try await other.read { try Int.fetchOne($0, sql: "PRAGMA data_version") }
        for _ in 0..<20 {
            #expect(try await f.store.beginPage(limit: 8) == 8)
            try await f.store.endPage()
        }
        #expect(try await other.read { try Int.fetchOne($0, sql: "PRAGMA data_version") } == before)
        // Killed at rest, each time after something was written: no death over a page.
        try f.store.database.close()
        for _ in 0..<8 {
            let next = try Fixture(file: file)
            #expect(try await next.store.beginPage(limit: 8) == 8)
            try await next.store.endPage()
            _ = try await next.store.settle(Settlement(), claim: nil)
            try next.store.database.close()
        }
        try other.close()
    }

    @Test("PRC-21 a cycle's beginning marks its first page: three deaths over it halve it, an end is none")
    func marked() async throws {
        let file = try TestFile()
        var limits: [Int?] = []
        for _ in 0..<5 {
            let f = try Fixture(file: file)
            limits.append(try await f.store.beginCycle(holder: "a", seconds: 60, pageLimit: 1_000)?.pageLimit)
            try f.store.database.close()
        }
        #expect(limits == [1_000, 1_000, 1_000, 500, 500])
        let f = try Fixture(file: file)
        try await f.apply(record("board", "b1", 4, ["name": "A"]))
        for _ in 0..<8 {
            #expect(try await f.store.beginCycle(holder: "a", seconds: 60, pageLimit: 1_000)?.pageLimit == 1_000)
            try await f.store.endPage()
            _ = try await f.store.release(holder: "a", noting: nil, at: 1, keeping: 10)
        }
        #expect(try await f.store.beginCycle(holder: "a", seconds: 60)?.pageLimit == nil)
        try await f.store.close()
    }

    @Test("PRC-21 killed at rest between cycles that found nothing, however often, no page is smaller")
    func killedAtRest() async throws {
        let file = try TestFile()
        for _ in 0..<8 {
            let f = try Fixture(file: file)
            for _ in 0..<3 {
                #expect(try await f.store.beginCycle(holder: "a", seconds: 60, pageLimit: 1_000)?.pageLimit == 1_000)
                _ = try await f.store.release(holder: "a", noting: "{}", at: 1, keeping: 10, endsPage: true)
            }
            // Nobody said good-bye.
            try f.store.database.close()
        }
        // The next three die over the page.
        var limits: [Int?] = []
        for _ in 0..<4 {
            let f = try Fixture(file: file)
            limits.append(try await f.store.beginCycle(holder: "a", seconds: 60, pageLimit: 1_000)?.pageLimit)
            try f.store.database.close()
        }
        #expect(limits == [1_000, 1_000, 1_000, 500])
    }
}
