public import SyncCore

/// A gate on trial, open and with nobody waiting, and how the suite closes it.
public struct GateSubject: Sendable {
    /// Why it is closed.
    public enum Reason: Sendable, Hashable {
        /// By this side's own wish: a back-off, a pause, a breaker. The user goes past it.
        case own
        /// By the server's word, for a minute or more. Nobody goes past it.
        case serverWord
    }

    public var gate: any Gate
    /// Closes it.
    public var close: @Sendable (Reason) async throws -> Void
    /// Opens what ``close`` has closed, or lets so much time pass that it is open.
    public var open: @Sendable () async throws -> Void
    /// The time by the gate's clock, milliseconds since 1970.
    public var now: @Sendable () -> Int64

    public init(
        gate: any Gate, close: @escaping @Sendable (Reason) async throws -> Void,
        open: @escaping @Sendable () async throws -> Void, now: @escaping @Sendable () -> Int64
    ) {
        self.gate = gate
        self.close = close
        self.open = open
        self.now = now
    }
}

/// What every ``Gate`` must keep; run each rule on a fresh one.
public enum GateContract {
    public static let rules: [ContractRule<GateSubject>] = [
        rule("an open gate lets everybody through, however often it is asked") { subject, expect in
            for urgency in [Urgency.routine, .user, .user, .routine, .routine] {
                try expect.equal(await subject.gate.mayGo(urgency), .open, "for \(urgency)")
            }
        },
        rule("what this side wants holds the engine back, and not the user; asking changes nothing") {
            subject, expect in
            try await subject.close(.own)
            let first = await subject.gate.mayGo(.routine)
            try isClosed(first, expect)
            try expect.equal(await subject.gate.mayGo(.user), .open, "for the user")
            try expect.equal(await subject.gate.mayGo(.routine), first, "asked again")
            try await subject.open()
            try expect.equal(await subject.gate.mayGo(.routine), .open, "opened")
        },
        rule("past the server's word nobody goes, not even the user, and it says until when") { subject, expect in
            try await subject.close(.serverWord)
            for urgency in [Urgency.user, .routine, .user] {
                let answer = await subject.gate.mayGo(urgency)
                try isClosed(answer, expect)
                guard case .closed(let time?, _) = answer else {
                    return try expect.isTrue(false, "no time for \(urgency)")
                }
                try expect.isTrue(time > subject.now(), "closed until \(time), which is past")
            }
            try await subject.open()
            for urgency in [Urgency.user, .routine] {
                try expect.equal(await subject.gate.mayGo(urgency), .open, "opened, for \(urgency)")
            }
        },
    ]

    private static func isClosed(_ answer: GateAnswer, _ expect: Expectation) throws {
        guard case .closed(_, let cause) = answer else { return try expect.isTrue(false, "it is open") }
        try expect.isTrue(!cause.isEmpty, "no cause")
    }

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (GateSubject, Expectation) async throws -> Void
    ) -> ContractRule<GateSubject> { ContractRule("Gate", name, body) }
}
