public import SyncCore

/// A sender on trial, over a fresh server that applies every change, and how the suite makes requests go wrong.
public struct ChangeSenderSubject: Sendable {
    /// What becomes of one request.
    public enum Fate: Sendable, Hashable {
        /// Something answers 503 in the server's place.
        case refused
        /// The server does it, and its answer is lost.
        case answerLost
        /// It is under way until it is cancelled.
        case held
    }

    /// What the server saw of a change.
    public struct Arrival: Sendable, Hashable {
        public var changeID: String
        public var deviceID: String

        public init(changeID: String, deviceID: String) {
            self.changeID = changeID
            self.deviceID = deviceID
        }
    }

    public var sender: any ChangeSender
    /// What reached the server, each time that it did, in order.
    public var arrivals: @Sendable () -> [Arrival]
    /// Says what becomes of the next request that carries this change; of the next probe for `nil`.
    public var suffer: @Sendable (Fate, _ changeID: String?) -> Void
    /// Waits until one request is held.
    public var waitForHeld: @Sendable () async -> Void

    public init(
        sender: any ChangeSender, arrivals: @escaping @Sendable () -> [Arrival],
        suffer: @escaping @Sendable (Fate, _ changeID: String?) -> Void,
        waitForHeld: @escaping @Sendable () async -> Void
    ) {
        self.sender = sender
        self.arrivals = arrivals
        self.suffer = suffer
        self.waitForHeld = waitForHeld
    }
}

/// What every ``ChangeSender`` must keep; run each rule on a fresh one over a fresh server of ``entities``.
public enum ChangeSenderContract {
    /// Boards with a name.
    public static let entities = [EntitySchema("board", fields: [.text("name")])]

    public static let rules: [ContractRule<ChangeSenderSubject>] = sending + probing

    /// The changes that the rules send: creates of boards `b1`, `b2`, …, under the keys `key-1`, `key-2`, …
    static func changes(_ count: Int) -> [Change] { (1...count).map { ExchangeContract.board($0) } }

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (ChangeSenderSubject, Expectation) async throws -> Void
    ) -> ContractRule<ChangeSenderSubject> { ContractRule("ChangeSender", name, body) }

    private static let sending: [ContractRule<ChangeSenderSubject>] = [
        rule("of nothing nothing is sent, and nothing comes") { subject, expect in
            try expect.equal(try await subject.sender.send([], deviceID: "device"), [], "verdicts")
            try expect.equal(subject.arrivals(), [], "arrivals")
        },
        rule("changes arrive in order, each once, in this device's name, and each gets its verdict") {
            subject, expect in
            let results = try await subject.sender.send(changes(3), deviceID: "device")
            try expect.equal(results.map(\.changeID), ["key-1", "key-2", "key-3"], "verdicts")
            for result in results {
                guard case .applied = result.verdict else {
                    return try expect.isTrue(false, "expected applied, got \(result)")
                }
            }
            try expect.equal(subject.arrivals().map(\.changeID), ["key-1", "key-2", "key-3"], "arrivals")
            try expect.equal(Set(subject.arrivals().map(\.deviceID)), ["device"], "device ids")
        },
        rule("D11: what got no verdict is thrown, and not repeated") { subject, expect in
            subject.suffer(.refused, "key-1")
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                _ = try await subject.sender.send(changes(1), deviceID: "device")
            }
            try expect.equal(failure.kind, .temporary, "kind")
            try expect.equal(failure.isCancelled, false, "cancelled")
            try expect.equal(subject.arrivals().count, 1, "arrivals")
        },
        rule("D11: a lost answer is a failure, not repeated; the change goes again under its key when it is asked") {
            subject, expect in
            subject.suffer(.answerLost, "key-1")
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                _ = try await subject.sender.send(changes(1), deviceID: "device")
            }
            try expect.equal(failure.kind, .network, "kind")
            try expect.equal(failure.isBrokenOff, true, "broken off")
            try expect.equal(subject.arrivals().count, 1, "arrivals")
            let again = try await subject.sender.send(changes(1), deviceID: "device")
            try expect.equal(again.map(\.changeID), ["key-1"], "verdicts")
            try expect.equal(subject.arrivals().map(\.changeID), ["key-1", "key-1"], "arrivals")
        },
        rule("a verdict that has come is told, whatever becomes of the changes behind it") { subject, expect in
            subject.suffer(.refused, "key-2")
            let results = try await subject.sender.send(changes(3), deviceID: "device")
            try expect.equal(results.map(\.changeID), ["key-1"], "verdicts")
            try expect.equal(
                subject.arrivals().map(\.changeID), ["key-1", "key-2"], "arrivals, nothing past the failure")
        },
        rule("a cancelled sending fails as cancelled, and the next one goes") { subject, expect in
            subject.suffer(.held, "key-1")
            let task = Task { () -> ExchangeFailure? in  // owner: this rule, which waits for it
                do throws(ExchangeFailure) {
                    _ = try await subject.sender.send(changes(1), deviceID: "device")
                    return nil
                } catch {
                    return error
                }
            }
            await subject.waitForHeld()
            task.cancel()
            try expect.equal(await task.value?.isCancelled, true, "cancelled")
            let again = try await subject.sender.send(changes(1), deviceID: "device")
            try expect.equal(again.map(\.changeID), ["key-1"], "verdicts")
        },
    ]

    private static let probing: [ContractRule<ChangeSenderSubject>] = [
        rule("a probe of a server that works succeeds, and sends no change") { subject, expect in
            try await subject.sender.probe()
            try expect.equal(subject.arrivals(), [], "arrivals")
        },
        rule("a probe of a server that does not answer fails") { subject, expect in
            subject.suffer(.refused, nil)
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                try await subject.sender.probe()
            }
            try expect.equal(failure.kind, .temporary, "kind")
            try await subject.sender.probe()
        },
    ]
}
