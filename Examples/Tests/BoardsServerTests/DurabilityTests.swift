import Foundation
import NIOConcurrencyHelpers
import Testing

@testable import BoardsServer

/// Many devices, and a server that is killed again and again: what it acknowledged is true, and nothing is missed.
///
/// `FERRY_LONG=1` runs all 200 rounds.
@Suite("killed", .timeLimit(.minutes(30))) struct DurabilityTests {
    private static let writers = 16
    private static let readers = 4

    @Test(
        "DL-06 16 writers, 4 readers with tiny pages, kill -9 in between: nothing lost, nothing doubled, nothing missed"
    )
    func killed() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let database = folder.path("boards.sqlite")
        let rounds = Rounds.count(6, long: 200)
        let log = Log()
        var seen = (0..<Self.readers).map { _ in Reader() }
        for round in 0..<rounds {
            let server = try ServerProcess("--database", database, "--rate", "1000000")
            let client = server.client
            if round == 0 {
                let counter = WholeServerTests.create(1, entity: "board", id: "counter", fields: #"{"n":{"new":0}}"#)
                _ = try await client.sync(WholeServerTests.request(device: "first", changes: [counter]))
            }
            try await Self.oneWins(client, round)
            let done = log.count
            seen = try await withThrowingTaskGroup(of: (Int, Reader)?.self) { group in
                for writer in 0..<Self.writers {
                    group.addTask {
                        await Self.write(writer, client, log)
                        return nil
                    }
                }
                for (number, reader) in seen.enumerated() {
                    group.addTask { (number, await reader.follow(client, limit: 1 + number)) }
                }
                // The moment of its death follows from the work itself: so many more acknowledged.
                let goal = done + 20 + (round * 7) % 90
                while log.count < goal { await Task.yield() }
                server.kill()
                var after = seen
                for try await one in group { if let (number, reader) = one { after[number] = reader } }
                return after
            }
        }
        try await Self.check(database, log, seen)
    }

    /// Of parallel `PUT`s with one `If-Match` exactly one wins.
    private static func oneWins(_ client: TestClient, _ round: Int) async throws {
        let made = try await client.json(.POST, "/1/boards", [:], #"{"id":"race-\#(round)","name":"start"}"#)
        let version = try #require(made.headers.first(name: "ETag"))
        let statuses = try await WholeServerTests.all(16) { writer in
            try await client.json(.PUT, "/1/boards/race-\(round)", ["If-Match": version], #"{"name":"w\#(writer)"}"#)
                .status
        }
        #expect(statuses.count { $0 == 200 } == 1 && statuses.count { $0 == 412 } == 15, "\(statuses)")
    }

    /// Makes boards and counts each, one request after another, until the server is gone. What was not answered is said
    /// again, word for word, by the next round.
    private static func write(_ writer: Int, _ client: TestClient, _ log: Log, times: Int = .max) async {
        for _ in 0..<times {
            let n = log.next(writer)
            let id = "w\(writer)-\(n)"
            let create = WholeServerTests.create(2 * n - 1, entity: "board", id: id, fields: #"{"name":{"new":"x"}}"#)
            let count = """
                {"changeID":"sum-\(id)","sequence":\(2 * n),"entity":"board","id":"counter","operation":"update",\
                "stamp":"0195a3f2c4d1-0005","fields":{"n":{"old":0,"new":1,"rule":"sum"}}}
                """
            do {
                let reply = try await client.sync(
                    WholeServerTests.request(device: "w\(writer)", limit: 1, changes: [create, count]))
                let results = try Verdicts(reply.bytes).results
                #expect(results.allSatisfy { $0.verdict == "applied" || $0.first == "applied" }, "\(reply.text)")
                log.acknowledged(writer, id, version: results[0].version ?? 0)
            } catch {
                return
            }
        }
    }

    private static func check(_ database: String, _ log: Log, _ readers: [Reader]) async throws {
        let server = try ServerProcess("--database", database)
        let client = server.client
        // What was under way when it died is said again, so that every change is decided.
        for writer in 0..<writers { await write(writer, client, log, times: 1) }
        let all = await Reader().follow(client, limit: 2_000, untilEnd: true)
        for (id, version) in log.all { #expect(all.versions[id] == version, "\(id)") }
        let text = try await client.send(.GET, "/1/boards/counter").text
        #expect(text.contains(#""n":\#(log.count)"#), "\(log.count) were counted: \(text)")
        for reader in readers {
            let end = await reader.follow(client, limit: 500, untilEnd: true)
            #expect(end.versions == all.versions)
            #expect(end.faults == [])
        }
        // No version was ever told for two states.
        var told: [Int: String] = [:]
        for reader in readers {
            for (version, state) in reader.told { #expect(told.updateValue(state, forKey: version) ?? state == state) }
        }
        #expect(try server.stop().status == 0)
    }

    /// What was acknowledged.
    private final class Log: Sendable {
        private let state = NIOLockedValueBox<(next: [Int: Int], versions: [String: Int])>(([:], [:]))

        var count: Int { state.withLockedValue { $0.versions.count } }
        var all: [String: Int] { state.withLockedValue { $0.versions } }
        func next(_ writer: Int) -> Int { state.withLockedValue { $0.next[writer] ?? 1 } }
        func acknowledged(_ writer: Int, _ id: String, version: Int) {
            state.withLockedValue { state in
                state.versions[id] = version
                state.next[writer] = (state.next[writer] ?? 1) + 1
            }
        }
    }

    /// A device that only reads, and remembers all that it was told.
    private struct Reader: Sendable {
        var checkpoint = 0
        var versions: [String: Int] = [:]
        var told: [Int: String] = [:]
        var faults: [String] = []

        /// Pages until the server is gone, or until there is no more.
        func follow(_ client: TestClient, limit: Int, untilEnd: Bool = false) async -> Reader {
            var reader = self
            do {
                while true {
                    let reply = try await client.sync(
                        WholeServerTests.request(device: "reader", from: reader.checkpoint, limit: limit))
                    let page = try Page(reply.bytes)
                    reader.take(page, limit: limit)
                    if untilEnd, !page.hasMore { return reader }
                }
            } catch {
                if untilEnd { reader.faults.append("\(error)") }
                return reader
            }
        }

        private mutating func take(_ page: Page, limit: Int) {
            if page.currentSyncVersion < checkpoint || page.changedRecords.count > limit {
                faults.append("a page from \(checkpoint) to \(page.currentSyncVersion)")
            }
            for record in page.changedRecords {
                if record.version <= checkpoint { faults.append("version \(record.version) after \(checkpoint)") }
                if let other = told.updateValue(record.id, forKey: record.version), other != record.id {
                    faults.append("version \(record.version) twice")
                }
                versions[record.id] = record.version
            }
            checkpoint = page.currentSyncVersion
        }
    }

    private struct Page: Decodable {
        let currentSyncVersion: Int
        let hasMore: Bool
        let changedRecords: [WholeServerTests.Page.Record]

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(Page.self, from: Data(bytes)) }
    }

    private struct Verdicts: Decodable {
        struct Result: Decodable {
            let verdict: String
            let first: String?
            let version: Int?
        }
        let results: [Result]

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(Verdicts.self, from: Data(bytes)) }
    }
}
