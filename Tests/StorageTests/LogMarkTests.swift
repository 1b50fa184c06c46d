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
    private func begun(_ number: UInt8) throws -> Process {
        var process = Process(database)
        process.begin()
        try makeLog(number)
        process.noteBegun()
        #expect(process.look() == .asLeft)
        return process
    }

    /// One that opens the file.
    private func opening() -> Process {
        var process = Process(database)
        process.begin()
        return process
    }

    /// What one process notes.
    private struct Process {
        let mark: LogMark
        var standing = LogMark.Standing()
        var closing: LogMark.Closing?

        init(_ database: String) { mark = LogMark(database: database) }

        func look() -> LogMark.Found { mark.look() }
        mutating func begin() { standing = mark.begin() }
        mutating func noteBegun() { mark.noteBegun(&standing) }
        mutating func noteClosing() throws {
            closing = mark.noteClosing(standing)
            try #require(closing != nil)
        }
        func noteClosed() { if let closing { mark.noteClosed(since: closing) } }
    }

    private func makeLog(_ number: UInt8) throws {
        var bytes = Data(count: 100)
        bytes[19] = number
        try bytes.write(to: URL(fileURLWithPath: database + "-wal"))
    }

    private func dropLog() throws { try FileManager.default.removeItem(atPath: database + "-wal") }

    @Test("PRC-15 who closes as the last one says so, and a log that is there afterwards is another one")
    func closed() throws {
        var process = try begun(7)
        try process.noteClosing()
        try dropLog()
        process.noteClosed()
        #expect(process.look() == .asLeft)
        try makeLog(9)
        #expect(process.look() == .other)
        try end()
    }

    @Test(
        "PRC-15 of two processes one closes as the other opens: whatever comes first, no log is taken for another one",
        arguments: ["before the first closes", "as it closes", "after its log is gone", "and was begun by it before"])
    func beside(begins: String) throws {
        var first = try begun(7)
        var second = Process(database)
        if begins == "before the first closes" { second.begin() }
        if begins == "and was begun by it before" {
            second.begin()
            first.noteBegun()
        }
        try first.noteClosing()
        if begins == "as it closes" { second.begin() }
        try dropLog()
        // The other one begins before the first comes to say that there is no log.
        if begins == "after its log is gone" { second.begin() }
        first.noteClosed()
        #expect(second.look() == .asLeft)
        // It is killed here, or goes on.
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
        var (first, second) = (try begun(7), opening())
        if isNoted { second.noteBegun() } else { first.noteBegun() }
        try first.noteClosing()
        try second.noteClosing()
        // Whoever notes first, the log goes before or after that.
        if isLast { first.noteClosed() }
        try dropLog()
        if !isLast { first.noteClosed() }
        // The other may take its time to note the end, or be killed before.
        #expect(second.look() == .asLeft)
        second.noteClosed()
        #expect(second.look() == .asLeft)
        // The next one begins as ever.
        _ = try begun(90)
        try end()
    }

    @Test("PRC-15 who closes while another one is about to leaves the log to that one, and what it noted")
    func putsBack() throws {
        var (first, second) = (try begun(7), Process(database))
        try first.noteClosing()
        try second.noteClosing()
        second.noteClosed()
        try dropLog()
        #expect(second.look() == .asLeft)
        first.noteClosed()
        try makeLog(3)
        #expect(second.look() == .other)
        try end()
    }

    @Test("PRC-15 a process that wrote nothing takes the log in as the last one: nothing is missing, at no moment")
    func reader() throws {
        var (writer, reader) = (try begun(7), Process(database))
        try reader.noteClosing()
        try dropLog()
        #expect(writer.look() == .asLeft)
        reader.noteClosed()
        try makeLog(3)
        #expect(writer.look() == .other)
        try end()
    }

    @Test(
        "PRC-15 one that opens the file and closes it leaves what a process noted whose log goes on",
        arguments: [false, true])
    func goesOn(begins: Bool) throws {
        let writer = try begun(7)
        var other = begins ? opening() : Process(database)
        try other.noteClosing()
        other.noteClosed()
        try makeLog(3)
        #expect(writer.look() == .other)
        try dropLog()
        #expect(writer.look() == .lost)
        try end()
    }
}
