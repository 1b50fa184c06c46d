public import SyncCore
import Foundation

/// A source of hints on trial, and how the suite speaks as the server.
public struct HintSourceSubject: Sendable {
    public var source: any HintSource
    /// The version that each stream was asked after, in order; also of one that was refused.
    public var asked: @Sendable () -> [Int64?]
    /// Says this on the stream that is open.
    public var say: @Sendable (Hint) async throws -> Void
    /// Ends the stream that is open, in order, behind what was said.
    public var end: @Sendable () async -> Void
    /// The next stream is refused with 503.
    public var refuse: @Sendable () async -> Void

    public init(
        source: any HintSource, asked: @escaping @Sendable () -> [Int64?],
        say: @escaping @Sendable (Hint) async throws -> Void, end: @escaping @Sendable () async -> Void,
        refuse: @escaping @Sendable () async -> Void
    ) {
        self.source = source
        self.asked = asked
        self.say = say
        self.end = end
        self.refuse = refuse
    }
}

/// What every ``HintSource`` must keep; run each rule on a fresh one.
public enum HintSourceContract {
    public static let rules: [ContractRule<HintSourceSubject>] = [
        rule("opened comes first, hints in turn behind it, and the end of the stream is the end of the call") {
            subject, expect in
            let hints = [
                Hint(currentSyncVersion: 7), Hint(currentSyncVersion: 9, scopes: ["board:b1", "board:b2"]), Hint(),
            ]
            let ear = Ear()
            async let end = listen(subject, after: 6, ear)
            await ear.waitForOpening()
            for hint in hints { try await subject.say(hint) }
            await subject.end()
            try expect.equal(await end, nil, "how it ended")
            try expect.equal(ear.events, [.opened] + hints.map { .hint($0) }, "events")
            try expect.equal(subject.asked(), [6], "asked")
        },
        rule("the next event waits until the one before was heard") { subject, expect in
            let ear = Ear(isSlow: true)
            async let end = listen(subject, after: nil, ear)
            await ear.waitForOpening()
            for version in 1...5 { try await subject.say(Hint(currentSyncVersion: Int64(version))) }
            await subject.end()
            _ = await end
            try expect.equal(ear.mostAtOnce, 1, "heard at once")
            try expect.equal(ear.events.count, 6, "events")
        },
        rule("D11: where there is no stream it throws; nothing is heard, and it is not tried again") {
            subject, expect in
            await subject.refuse()
            let ear = Ear()
            try expect.equal(await listen(subject, after: nil, ear)?.kind, .temporary, "failure")
            try expect.equal(ear.events, [], "events")
            try expect.equal(subject.asked().count, 1, "asked")
        },
        rule("cancelled, it throws as cancelled; the next call listens anew") { subject, expect in
            let ear = Ear()
            let task = Task { await listen(subject, after: 1, ear) }  // owner: this rule, which waits for it
            await ear.waitForOpening()
            task.cancel()
            try expect.equal(await task.value?.isCancelled, true, "cancelled")
            let next = Ear()
            async let end = listen(subject, after: 2, next)
            await next.waitForOpening()
            await subject.end()
            try expect.equal(await end, nil, "how it ended")
            try expect.equal(subject.asked(), [1, 2], "asked")
        },
    ]

    private static func listen(_ subject: HintSourceSubject, after version: Int64?, _ ear: Ear) async
        -> ExchangeFailure?
    {
        do throws(ExchangeFailure) {
            try await subject.source.listen(after: version) { await ear.hear($0) }
            return nil
        } catch {
            ear.open()
            return error
        }
    }

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (HintSourceSubject, Expectation) async throws -> Void
    ) -> ContractRule<HintSourceSubject> { ContractRule("HintSource", name, body) }
}

/// Who listens: keeps what it heard, and how much of it at once.
private final class Ear: @unchecked Sendable {
    // Sendable: everything that changes is used under `lock` alone.
    private let lock = NSLock()
    private let isSlow: Bool
    private let (opening, door) = AsyncStream.makeStream(of: Void.self)
    private var heard: [HintEvent] = []
    private var now = 0
    private var most = 0

    init(isSlow: Bool = false) { self.isSlow = isSlow }

    var events: [HintEvent] { lock.withLock { heard } }
    var mostAtOnce: Int { lock.withLock { most } }

    func open() { door.finish() }
    func waitForOpening() async { for await _ in opening {} }

    func hear(_ event: HintEvent) async {
        lock.withLock {
            now += 1
            most = max(most, now)
        }
        if isSlow { for _ in 0..<20 { await Task.yield() } }
        lock.withLock {
            heard.append(event)
            now -= 1
        }
        open()
    }
}
