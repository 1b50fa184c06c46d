import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

/// What an app sees and does, on both logs.
@Suite("What an app sees and does", .timeLimit(.minutes(20)))
struct AppScenarios {
    @Test(
        "conflicts in a row: successors by the field's rule, then without check, then set aside; all of it bounded",
        arguments: LogKind.allCases)
    func conflicts(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a", name: "old"))
        try await scene.drain()
        try await scene.write(.rename("a", to: "new"))
        var keys: [String] = []
        for round in 1...20 {
            guard let claim = try await scene.queue.take(urgency: .user).batch else { break }
            let change = claim.changes[0].change
            keys.append(change.id)
            let record = ServerRecord(
                key: change.record, version: Int64(100 + round), fields: ["name": .string("theirs \(round)")])
            _ = try await scene.queue.settle(
                claim, results: [ChangeResult(changeID: change.id, verdict: .conflict(record: record))], stamp: nil,
                backoffSeconds: nil, urgency: .user)
        }
        #expect(keys.count == 11 && Set(keys).count == 11)
        let failure = try #require(try await scene.queue.failures().first)
        #expect(failure.reason.code == "conflict" && failure.queued.change.fields["name"]?.new == "new")
        #expect(try await scene.keys().isEmpty)
    }

    @Test("an expired change is over with an event, and no failure", arguments: LogKind.allCases)
    func expired(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        scene.server.refuse(.expired) { _ in true }
        let events = scene.queue.events()
        try await scene.drain()
        let told = await Self.first(events) { if case .expired = $0 { true } else { false } }
        #expect(told != nil)
        try await scene.expectNothingLeft()
    }

    @Test(
        "DAT-09 a child refused for a parent that was set aside here is told as blocked, not as failed",
        arguments: LogKind.allCases)
    func missingReference(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a"), .card("c", on: "a"))
        let events = scene.queue.events()
        let claim = try await scene.batch()
        let (parent, child) = (claim.changes[0].change, claim.changes[1].change)
        let results = [
            ChangeResult(changeID: parent.id, verdict: .refused()),
            ChangeResult(changeID: child.id, verdict: .refused(.missingReference, reference: "a")),
        ]
        _ = try await scene.queue.settle(claim, results: results, stamp: nil, backoffSeconds: nil, urgency: .routine)
        #expect(try await scene.log.failures().map(\.queued.change.id) == [parent.id])
        let waiting = try #require(try await scene.log.queued().first)
        #expect(waiting.state == .blocked && waiting.blockedBy == parent.id && waiting.change.id != child.id)
        // What is told names what waits now.
        await scene.queue.pause()
        await scene.queue.resume()
        var told: [UploadEvent] = []
        for await event in events {
            told.append(event)
            if case .resumed = event { break }
        }
        #expect(told.contains(.blocked(waiting.change.id, by: parent.id)))
        #expect(!told.contains { if case .setAside(child.id, _) = $0 { true } else { false } })
    }

    @Test("what waits for a refused change is told before the next one leaves", arguments: LogKind.allCases)
    func told(kind: LogKind) async throws {
        let scene = try Scene(kind, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1)))
        try await scene.write(.board("a"), .card("c", on: "a"), .board("b"))
        let keys = try await scene.keys()
        scene.server.refuse { $0.record.id == "a" }
        let events = scene.queue.events()
        try await scene.send(try await scene.batch())
        var told: [UploadEvent] = []
        for await event in events {
            told.append(event)
            if event == .sent([keys[2]]) { break }
        }
        #expect(told.map(\.word) == ["sent", "setAside", "blocked", "sent"])
        try await scene.drain()
    }

    @Test(
        "the watchdog tells of a change that waits too long, with the cause, on a restarted device too",
        arguments: LogKind.allCases)
    func watchdog(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        try await scene.send(try await scene.batch(), .fails(.http(503)))
        try await scene.restart()
        scene.advance(seconds: 601)
        let events = scene.queue.events()
        try await scene.send(try await scene.batch(), .fails(.http(503, retryAfter: 60)))
        let told = await Self.first(events) { if case .stuck = $0 { true } else { false } }
        guard case .stuck(let age, let cause)? = told else {
            Issue.record("the watchdog said nothing")
            return
        }
        #expect(age >= 601_000 && cause.contains("503"))
    }

    /// The first event that matches among those told so far and to come.
    private static func first(
        _ events: AsyncStream<UploadEvent>, where matches: (UploadEvent) -> Bool
    ) async -> UploadEvent? {
        for await event in events where matches(event) { return event }
        return nil
    }
}

extension UploadEvent {
    /// Its case's name.
    fileprivate var word: String { "\(self)".prefix { $0 != "(" }.description }
}
