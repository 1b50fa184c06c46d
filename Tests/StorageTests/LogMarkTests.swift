import Foundation
import Testing

@testable import Storage

/// What is noted of a log by processes that open and close a file beside each other.
@Suite struct LogMarkTests {
    private let database: String

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "log-mark-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        database = folder.appending(path: "file.sqlite").path
    }

    private func end() throws {
        try FileManager.default.removeItem(atPath: (database as NSString).deletingLastPathComponent)
    }

    /// A process that has a log with this number, and pages in it.
    private func begun(_ number: UInt8) throws -> LogMark {
        let mark = LogMark(database: database)
        mark.begin()
        try makeLog(number)
        mark.noteBegun()
        #expect(mark.look() == .asLeft)
        return mark
    }

    private func makeLog(_ number: UInt8) throws {
        var bytes = Data(count: 100)
        bytes[19] = number
        try bytes.write(to: URL(fileURLWithPath: database + "-wal"))
    }

    private func dropLog() throws { try FileManager.default.removeItem(atPath: database + "-wal") }

    @Test("PRC-15 who closes as the last one says so, and a log that is there afterwards is another one")
    func closed() throws {
        let mark = try begun(7)
        let closing = try #require(mark.noteClosing())
        try dropLog()
        mark.noteClosed(since: closing)
        #expect(mark.look() == .asLeft)
        try makeLog(9)
        #expect(mark.look() == .other)
        try end()
    }

    @Test(
        "PRC-15 of two processes one closes as the other opens: whatever comes first, no log is taken for another one")
    func beside() throws {
        let (first, second) = (try begun(7), LogMark(database: database))
        let closing = try #require(first.noteClosing())
        try dropLog()
        // The other one begins before the first comes to say that there is no log.
        second.begin()
        first.noteClosed(since: closing)
        try makeLog(200)
        #expect(second.look() == .asLeft)
        second.noteBegun()
        #expect(second.look() == .asLeft)
        try dropLog()
        #expect(second.look() == .lost)
        try end()
    }

    @Test(
        "PRC-15 of two processes that close one finds the log still: once the other has taken it in, none is missing",
        arguments: [false, true], [false, true])
    func bothClose(isNoted: Bool, isLast: Bool) throws {
        let (first, second) = (try begun(7), LogMark(database: database))
        if isNoted { second.noteBegun() }
        let notes = [first.noteClosing(), second.noteClosing()].compactMap { $0 }
        // Whoever notes first, the log goes before or after that.
        if isLast { first.noteClosed(since: notes[0]) }
        try dropLog()
        if !isLast { first.noteClosed(since: notes[0]) }
        // The other may take its time to note the end, or be killed before.
        #expect(second.look() == .asLeft)
        second.noteClosed(since: notes[1])
        #expect(second.look() == .asLeft)
        // The next one begins as ever.
        _ = try begun(90)
        try end()
    }

    @Test("PRC-15 who closes while another one is about to leaves the log to that one, and what it noted")
    func putsBack() throws {
        let (first, second) = (try begun(7), LogMark(database: database))
        let taking = try #require(first.noteClosing())
        let leaving = try #require(second.noteClosing())
        second.noteClosed(since: leaving)
        try dropLog()
        #expect(second.look() == .asLeft)
        first.noteClosed(since: taking)
        try makeLog(3)
        #expect(second.look() == .other)
        try end()
    }

    @Test("PRC-15 a process that wrote nothing takes the log in as the last one: nothing is missing, at no moment")
    func reader() throws {
        let (mark, reader) = (try begun(7), LogMark(database: database))
        let closing = try #require(reader.noteClosing())
        try dropLog()
        #expect(mark.look() == .asLeft)
        reader.noteClosed(since: closing)
        try makeLog(3)
        #expect(mark.look() == .other)
        try end()
    }

    @Test("PRC-15 a reader that closes leaves what a process noted whose log goes on")
    func goesOn() throws {
        let (mark, reader) = (try begun(7), LogMark(database: database))
        reader.noteClosed(since: try #require(reader.noteClosing()))
        try makeLog(3)
        #expect(mark.look() == .other)
        try dropLog()
        #expect(mark.look() == .lost)
        try end()
    }
}
