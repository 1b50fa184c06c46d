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

    /// A log with this number, and pages in it.
    private func makeLog(_ number: UInt8) throws {
        var bytes = Data(count: 100)
        bytes[19] = number
        try bytes.write(to: URL(fileURLWithPath: database + "-wal"))
    }

    private func dropLog() throws { try FileManager.default.removeItem(atPath: database + "-wal") }

    @Test("PRC-15 who closes as the last one says so, and a log that is there afterwards is another one")
    func closed() throws {
        let mark = LogMark(database: database)
        mark.begin()
        try makeLog(7)
        mark.noteBegun()
        #expect(mark.look() == .asLeft)
        let note = mark.noteClosing(wasNoted: true)
        try dropLog()
        mark.noteClosed(wasNoted: true, since: note)
        #expect(mark.look() == .asLeft)
        try makeLog(9)
        #expect(mark.look() == .other)
        try end()
    }

    @Test(
        "PRC-15 of two processes one closes as the other opens: whatever comes first, no log is taken for another one",
        arguments: [false, true])
    func beside(isNoted: Bool) throws {
        let (first, second) = (LogMark(database: database), LogMark(database: database))
        first.begin()
        try makeLog(7)
        first.noteBegun()
        let note = first.noteClosing(wasNoted: isNoted)
        try dropLog()
        // The other one begins before the first comes to say that there is no log.
        second.begin()
        first.noteClosed(wasNoted: isNoted, since: note)
        try makeLog(200)
        #expect(second.look() == .asLeft)
        second.noteBegun()
        #expect(second.look() == .asLeft)
        try dropLog()
        #expect(second.look() == .lost)
        try end()
    }
}
