import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Notices")
struct NoticeTests {
    @Test("The engine says what it changed, of which entity and by whose word, once the slice stands")
    func applied() async throws {
        let f = try Fixture()
        var notices = f.store.appliedNotices().makeAsyncIterator()
        try await f.apply(record("board", "b1", 1, ["name": "A"]))
        let page = await notices.next()
        #expect(page == AppliedNotice(origin: .page, records: [RecordKey("board", "b1")]))
        #expect(page?.entities == ["board"])
        try f.sql("UPDATE board SET name = 'B'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        let verdict = await notices.next()
        #expect(verdict == AppliedNotice(origin: .verdict, records: [RecordKey("board", "b1")]))
        #expect(try f.text("SELECT name FROM board") == "A")
    }

    @Test("DL-21 that the rows of a dropped root went is told, at once or as its last change is decided")
    func dropped() async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        var notices = f.store.appliedNotices().makeAsyncIterator()
        try await f.store.setScopes([RecordKey("board", "b2")])
        #expect(await notices.next() == AppliedNotice(origin: .fullPass, records: []))
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        #expect(try await f.store.evictLeaving() == 1)
        #expect(await notices.next() == AppliedNotice(origin: .fullPass, records: []))
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
        try await f.store.close()
    }

    @Test("What goes with the record above it is told with it, of whatever entity")
    func family() async throws {
        let f = try await Fixture.twoBoards()
        var notices = f.store.appliedNotices().makeAsyncIterator()
        let gone = [RecordKey("card", "c1"), RecordKey("list", "l1"), RecordKey("board", "b1")]
        try await f.apply(ServerRecord(key: gone[2], version: 9, presence: .deleted))
        #expect(await notices.next() == AppliedNotice(origin: .page, records: gone))
        try await f.store.close()
    }

    @Test("A listener that is slow loses the oldest, and is told so")
    func slow() async throws {
        let speakers = NoticeSpeakers()
        var notices = speakers.stream(keeping: 2).makeAsyncIterator()
        for number in 1...4 { speakers.speak(AppliedNotice(origin: .page, records: [RecordKey("card", "c\(number)")])) }
        let first = await notices.next()
        let second = await notices.next()
        #expect(first?.records == [RecordKey("card", "c3")])
        #expect(second?.records == [RecordKey("card", "c4")])
        #expect(second?.isIncomplete == true)
    }

    @Test("PRC-11 what another process writes is noticed when somebody looks, once")
    func others() async throws {
        let f = try Fixture()
        // Another connection to the file is what another process is.
        let other = try DatabasePool(path: f.file.path)
        #expect(try await !f.store.noticeOthers())
        #expect(try await !f.store.noticeOthers())
        try f.sql("INSERT INTO board (id, name) VALUES ('b0', 'own')")
        #expect(try await !f.store.noticeOthers())
        var queue = f.store.notices().makeAsyncIterator()
        var applied = f.store.appliedNotices().makeAsyncIterator()
        try await other.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        #expect(try await f.store.noticeOthers())
        await queue.next()
        let notice = await applied.next()
        #expect(notice?.origin == .otherProcess)
        #expect(try await !f.store.noticeOthers())
        // The engine's own questions look, too.
        try await other.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')") }
        _ = try await f.store.summary()
        await queue.next()
        try other.close()
    }

    @Test("Watching looks after each pause, and ends with its task")
    func watch() async throws {
        let f = try Fixture()
        let other = try DatabasePool(path: f.file.path)
        var queue = f.store.notices().makeAsyncIterator()
        let (pauses, ask) = AsyncStream.makeStream(of: Void.self)
        let store = f.store
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await store.watchOthers {
                    for await _ in pauses { return }
                    throw CancellationError()
                }
            }
            try await store.noticeOthers()
            try await other.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
            ask.yield()
            await queue.next()
            ask.finish()
            await #expect(throws: CancellationError.self) { try await group.waitForAll() }
        }
        try other.close()
    }

    @Test("A write of the app's speaks; one of the engine's that adds nothing to the queue does not")
    func queueNotices() async throws {
        let f = try Fixture()
        let heard = Tally()
        let stream = f.store.notices()
        try await f.applyBoard()
        _ = try await f.claim()
        try await f.store.write { try $0.execute(sql: "CREATE TABLE mine (x)") }
        try f.sql("UPDATE card SET name = 'B'")
        for await _ in stream {
            heard.add("\(try await f.store.summary().pending)")
            break
        }
        // The first notice of all is that of the edit.
        #expect(heard.all == ["1"])
    }
}
