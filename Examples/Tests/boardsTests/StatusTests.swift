import Foundation
import Ferry
import GRDB
import SyncCore
import Testing

@testable import boards

@Suite("status of everything")
struct StatusTests {
    private func state(_ counts: StateCounts = StateCounts(), _ change: (inout SyncPosition) -> Void) -> StatusReport {
        var position = SyncPosition(deviceID: "d", dataset: "d-1", epoch: "e-1", checkpoint: 7)
        change(&position)
        return StatusReport(record: nil, counts: counts, wait: nil, pull: PullStanding(position, last: nil))
    }

    @Test("OBS-02 nothing waits here, but the pull is not complete: behind, with the reason; never synced")
    func behind() throws {
        #expect(state { _ in }.sentence == "synced")
        let held = state { $0.held = 3 }
        #expect(held.state == "behind")
        #expect(held.sentence.contains("3") && held.sentence.count { $0 == "\n" } == 1)
        #expect(state { $0.isInFullPass = true }.state == "behind")
        #expect(state { $0.awaitsConfirmation = true }.sentence.contains("--confirm"))
        for word in ["synced", "queued", "syncing", "failed"] {
            #expect(!state { $0.awaitsConfirmation = true }.sentence.contains(word))
        }
        #expect(held.json["gap"] != .null && held.json["held"] == 3)
        var counts = StateCounts()
        counts.waiting = 1
        #expect(state(counts) { $0.held = 3 }.state == "queued")
    }

    @Test("OBS-02 what is kept back is told by what keeps it: what this app cannot keep waits for nothing")
    func kinds() {
        func gap(_ reasons: [HeldRecord.Reason: Int]) -> String {
            var position = SyncPosition(deviceID: "d", dataset: "d-1", epoch: "e-1", checkpoint: 7)
            position.held = reasons.values.reduce(0, +)
            return PullStanding(position, last: nil, reasons: reasons).gap ?? ""
        }
        #expect(gap([.parent: 2, .stray: 1]) == "Records that wait for something that is missing here: 3.")
        #expect(
            gap([.type: 2])
                == "Records that this app cannot keep, with a value of another type than it knows: 2.")
        let all = gap([.type: 1, .constraint: 2, .unknownEntity: 3, .unsent: 4, .parent: 5])
        for number in 1...5 { #expect(all.contains(": \(number).")) }
        #expect(!all.contains("\n") && !gap([.constraint: 1]).contains("missing"))
        for word in ["synced", "queued", "syncing", "failed"] { #expect(!all.contains(word)) }
    }

    @Test("A cause that is a sentence of its own ends with one full stop, and status says where the cause stands")
    func fullStops() {
        let cause = "network: The connection broke (it ended)."
        let tried = QueueSummary(pending: 1, schedule: QueueSchedule(failures: 1, cause: cause))
        #expect(
            QueueWait(tried, now: 0).sentence
                == "The last try failed: network: The connection broke (it ended).")
        var counts = StateCounts()
        counts.waiting = 1
        let status = StatusReport(record: nil, counts: counts, wait: QueueWait(tried, now: 0), pull: nil)
        #expect(status.sentence == "queued (1 waiting)\nThe last try came to nothing; `boards pending` says why.")
        var waiting = tried
        waiting.schedule.notBeforeMilliseconds = 1_000
        #expect(QueueWait(waiting, now: 0).sentence?.hasSuffix("(it ended)).") == true)
        waiting.schedule = QueueSchedule(needsCredentials: true)
        let refused = StatusReport(record: nil, counts: counts, wait: QueueWait(waiting, now: 0), pull: nil)
        #expect(refused.sentence.contains("refused the credentials"))
    }

    @Test("OBS-02, PRC-14 after a damaged database a device is behind until a sync has brought everything again")
    func afterDamage() async throws {
        let shop = try Workshop()
        let server = try await ServerProcess(shop)
        try await shop.ok("A", "add", "board", "--id", "b", "name=Garden")
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        #expect(try await shop.ok("A", "status") == "synced")
        try shop.write("no database", to: "A/boards.sqlite")
        let log = shop.file("A/boards.sqlite-wal")
        if FileManager.default.fileExists(atPath: log) { try FileManager.default.removeItem(atPath: log) }
        let found = try await shop.on("A", "show")
        #expect(found.status == 0 && found.output.isEmpty && found.complaint.contains("damaged"))
        #expect(try await shop.ok("A", "status").hasPrefix("behind\nThe database was damaged"))
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        #expect(try await shop.ok("A", "status") == "synced")
        #expect(try await shop.ok("A", "show").contains("Garden"))
        #expect(server.stop() == 0)
    }

    @Test("PRC-14 after a damaged database what was made unsent under what comes again is here, as it is everywhere")
    func savedUnderOthers() async throws {
        let shop = try Workshop()
        let server = try await ServerProcess(shop)
        try await shop.ok("A", "add", "board", "--id", "b", "name=Garden")
        try await shop.ok("A", "add", "list", "--id", "l", "idBoard=b", "name=Ideas")
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        try await shop.ok("A", "add", "card", "--id", "c", "idList=l", "name=Pond")
        try await shop.ok("A", "add", "comment", "--id", "k", "idCard=c", "text=deep")
        let handle = try FileHandle(forUpdating: URL(filePath: shop.file("A") + "/boards.sqlite"))
        try handle.write(contentsOf: Data(repeating: 0x55, count: 16))
        try handle.close()
        #expect(try await shop.on("A", "show").complaint.contains("2 unsent"))
        for device in ["A", "B"] { try await shop.ok(device, "--server", server.url, "sync", "--timeout", "300") }
        #expect(try await shop.ok("B", "show").contains("Pond"))
        #expect(try await shop.ok("A", "show") == shop.ok("B", "show"))
        #expect(try await shop.ok("A", "status") == "synced")
        #expect(server.stop() == 0)
    }

    @Test("OBS-02 a sync that found nobody leaves a device behind; the next one that comes to its end does not")
    func afterFailure() async throws {
        let shop = try Workshop()
        let server = try await ServerProcess(shop)
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        #expect(try await shop.ok("A", "status") == "synced")
        let lost = try await shop.on("A", "--server", "http://127.0.0.1:1", "sync", "--timeout", "4")
        #expect(lost.status == 3)
        #expect(try await shop.ok("A", "status").hasPrefix("behind\n"))
        let told = try await shop.on("A", "status", "--json").json
        #expect(told["cause"]?.string?.hasPrefix("network") == true && told["needsCredentials"] == false)
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        #expect(try await shop.ok("A", "status") == "synced")
        #expect(server.stop() == 0)
    }

    @Test("OBS-02, SEC-02 a pull alone that the server refused for its credentials: status says that it is they")
    func refusedPull() async throws {
        let shop = try Workshop()
        let tokens = try shop.write("secret ann\n", to: "tokens")
        let server = try await ServerProcess(shop, "--tokens", tokens)
        try await shop.ok("A", "--server", server.url, "--token", "secret", "sync", "--timeout", "300")
        #expect(try await shop.on("A", "status", "--json").json["needsCredentials"] == false)
        let refused = try await shop.on("A", "--server", server.url, "--token", "other", "sync", "--timeout", "300")
        #expect(refused.status == 3)
        let status = try await shop.on("A", "status", "--json").json
        #expect(status["state"] == "behind" && status["needsCredentials"] == true)
        #expect(status["cause"]?.string?.contains("credentials") == true)
        #expect(try await shop.ok("A", "status").contains("refused the credentials"))
        try await shop.ok("A", "--server", server.url, "--token", "secret", "sync", "--timeout", "300")
        let healed = try await shop.on("A", "status", "--json").json
        #expect(healed["state"] == "synced" && healed["needsCredentials"] == false && healed["cause"] == .null)
        #expect(server.stop() == 0)
    }

    @Test(
        "PRC-14 a database of no bytes, or none, where one was: the command says so once, and it is behind until a sync",
        arguments: ["empty", "missing"])
    func emptied(_ how: String) async throws {
        let shop = try Workshop()
        let server = try await ServerProcess(shop)
        try await shop.ok("A", "add", "board", "--id", "b", "name=Garden")
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        for file in ["A/boards.sqlite-wal", "A/boards.sqlite-shm", "A/boards.sqlite"] {
            let path = shop.file(file)
            if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
        }
        if how == "empty" { try shop.write("", to: "A/boards.sqlite") }
        let found = try await shop.on("A", "show")
        #expect(found.status == 0 && found.output.isEmpty && found.complaint.contains("gone"))
        #expect(try await shop.on("A", "show").complaint.isEmpty)
        #expect(try await shop.ok("A", "status").hasPrefix("behind\nThe database that was here is gone"))
        try await shop.ok("A", "--server", server.url, "sync", "--timeout", "300")
        #expect(try await shop.ok("A", "status") == "synced")
        #expect(try await shop.ok("A", "show").contains("Garden"))
        #expect(server.stop() == 0)
    }
}

@Suite("a database that another process has locked")
struct LockedTests {
    private let shop: Workshop

    init() throws { shop = try Workshop() }

    /// Somebody else's transaction while this runs.
    private func locked<T>(_ device: String, _ work: () async throws -> T) async throws -> T {
        var settings = Configuration()
        settings.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: shop.file(device) + "/boards.sqlite", configuration: settings)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN EXCLUSIVE") }
        let result = try await work()
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try other.close()
        return result
    }

    @Test("PRC-10 whoever only looks does not wait for who writes")
    func looking() async throws {
        try await shop.ok("A", "add", "board", "--id", "b", "name=Garden")
        let commands = [
            ["show"], ["status"], ["status", "board", "b"], ["pending"], ["failures"], ["conflicts"],
            ["conflicts", "--counts"],
            ["summary"],
        ]
        var before: [String] = []
        for command in commands { before.append(try await shop.boards(["--data", shop.file("A")] + command).output) }
        #expect(before[0].contains("Garden") && before[1].hasPrefix("queued") && before[7].contains("Garden"))
        let during = try await locked("A") {
            var during: [Finished] = []
            for command in commands { during.append(try await shop.boards(["--data", shop.file("A")] + command)) }
            return during
        }
        #expect(during.map(\.output) == before)
        #expect(during.allSatisfy { $0.status == 0 && $0.complaint.isEmpty })
    }

    @Test("PRC-10 sync waits for a lock no longer than it was told, then says so with status 1")
    func timeout() async throws {
        try await shop.ok("A", "add", "board", "name=Garden")
        let ended = try await locked("A") {
            try await shop.on("A", "--server", "http://127.0.0.1:1", "sync", "--timeout", "0.5")
        }
        #expect(ended.took < .seconds(4.5), "\(ended.took)")
        #expect(ended.status == 1)
        #expect(ended.output.isEmpty)
        #expect(ended.complaint.hasSuffix(": another process has the database locked\n"))
    }
}

@Suite("what a server says, on a terminal")
struct TerminalTests {
    @Test("a refusal's words are one line: no escape, no line's end and no turn of direction of a server gets through")
    func plainWords() {
        let change = Change(
            id: "k", sequence: 1, record: RecordKey("card", "c"), operation: .create, schemaVersion: 1,
            stamp: Stamp(milliseconds: 1, counter: 0), fields: [:])
        let failed = FailedChange(
            queued: QueuedChange(change: change),
            reason: SetAsideReason(code: "in\u{7}valid", message: "no\n\u{1b}[31mred\u{202e}\u{2028}"),
            failedAtMilliseconds: 0, isUncertain: false)
        let line = ChangeReport.line(failed, waiting: [])
        #expect(line.split(separator: "\n").count == 2)
        #expect(!line.unicodeScalars.contains { ["\u{7}", "\u{1b}", "\u{202e}", "\u{2028}"].contains($0) })
    }
}
