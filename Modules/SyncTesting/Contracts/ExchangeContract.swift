public import SyncCore

/// An exchange on trial, over a fresh and empty server of ``ExchangeContract/entities``.
public struct ExchangeSubject: Sendable {
    /// What becomes of one request on its way, for the rules that need a bad one.
    public enum Fate: Sendable, Hashable {
        /// Something answers 503 in the server's place.
        case refused
        /// The server does it, and its answer is lost.
        case answerLost
        /// It is under way until it is cancelled, or the exchange closed.
        case held
    }

    public var exchange: any Exchange
    /// How many requests have been sent so far, whatever became of them; `nil` where the exchange is the server itself.
    public var sent: (@Sendable () -> Int)?
    /// Says what becomes of the next request; `nil` where nothing can happen to one, and these rules have nothing to try.
    public var suffer: (@Sendable (Fate) -> Void)?
    /// Waits until one request is held.
    public var waitForHeld: @Sendable () async -> Void
    /// Whether closing it ends it; a server that others use as well stays open.
    public var closes: Bool

    public init(
        exchange: any Exchange, sent: (@Sendable () -> Int)? = nil, suffer: (@Sendable (Fate) -> Void)? = nil,
        waitForHeld: @escaping @Sendable () async -> Void = {}, closes: Bool = true
    ) {
        self.exchange = exchange
        self.sent = sent
        self.suffer = suffer
        self.waitForHeld = waitForHeld
        self.closes = closes
    }
}

/// What every ``Exchange`` must keep; run each rule on a fresh one over a fresh server.
///
/// Whether a body is this server's answer to this request is the wire's affair: the suite has only values.
public enum ExchangeContract {
    /// Boards with a name; cards with a name, in a board.
    public static let entities = [
        EntitySchema("board", fields: [.text("name")]),
        EntitySchema("card", fields: [.parent("idBoard", "board"), .text("name")]),
    ]

    public static let rules: [ContractRule<ExchangeSubject>] = answering + failing

    static func rule(
        _ name: String, _ body: @escaping @Sendable (ExchangeSubject, Expectation) async throws -> Void
    ) -> ContractRule<ExchangeSubject> { ContractRule("Exchange", name, body) }

    static func board(_ number: Int) -> Change {
        Change(
            id: "key-\(number)", sequence: Int64(number), record: RecordKey("board", "b\(number)"), operation: .create,
            stamp: Stamp(milliseconds: UInt64(1_000 + number), counter: 0),
            fields: ["name": FieldDelta(old: nil, new: .string("board \(number)"))])
    }

    static func request(
        _ cycle: String, from device: String = "device-a", _ changes: [Change] = [], since version: Int64 = 0,
        epoch: String? = nil, limit: Int = 500
    ) -> ExchangeRequest {
        ExchangeRequest(
            cycleID: cycle, deviceID: device, epoch: epoch, lastSyncVersion: version, limit: limit, changes: changes)
    }

    private static let answering: [ContractRule<ExchangeSubject>] = [
        rule("an empty server has an epoch, and nothing to tell") { subject, expect in
            let answer = try await subject.exchange.exchange(request("c-1"))
            try expect.isTrue(!answer.epoch.isEmpty, "no epoch")
            try expect.equal(answer.results, [], "results")
            try expect.equal(answer.hasMore, false, "more")
            try expect.equal(answer.page.count, 0, "records")
            try expect.equal(try answer.page.next(maxRecords: 10, maxBytes: 1_000), [], "the page")
        },
        rule("each change sent gets its own verdict, at most one, and nobody else does") { subject, expect in
            let changes = (1...3).map { board($0) }
            let answer = try await subject.exchange.exchange(request("c-1", changes))
            try expect.equal(answer.results.map(\.changeID).sorted(), changes.map(\.id), "verdicts")
            for result in answer.results {
                guard case .applied(let version?, _, _) = result.verdict else {
                    return try expect.isTrue(false, "expected applied, got \(result)")
                }
                try expect.isTrue(version > 0 && version <= answer.currentSyncVersion, "a verdict's version \(version)")
                try expect.equal(result.isDuplicate, false, "duplicate")
            }
        },
        rule("a page brings what is above the checkpoint, in version order, each record once, as it was sent") {
            subject, expect in
            let epoch = try await subject.exchange.exchange(request("c-1", (1...5).map { board($0) })).epoch
            var (checkpoint, records, hasMore, cycle) = (Int64(0), [ServerRecord](), true, 1)
            while hasMore, cycle < 10 {
                cycle += 1
                let answer = try await subject.exchange.exchange(
                    request("c-\(cycle)", from: "device-b", since: checkpoint, epoch: epoch, limit: 2))
                let page = try answer.page.next(maxRecords: .max, maxBytes: .max)
                try expect.equal(page.count, answer.page.count, "the page's count")
                try expect.isTrue(page.count <= 2, "\(page.count) records, where 2 were wanted")
                let versions = [checkpoint] + page.map(\.version)
                try expect.isTrue(zip(versions, versions.dropFirst()).allSatisfy(<), "versions \(versions)")
                try expect.isTrue(page.last?.version ?? 0 <= answer.currentSyncVersion, "beyond its version")
                try expect.isTrue(!answer.hasMore || answer.currentSyncVersion > checkpoint, "more, and no progress")
                records += page
                (checkpoint, hasMore) = (answer.currentSyncVersion, answer.hasMore)
            }
            try expect.equal(records.map(\.key.id).sorted(), (1...5).map { "b\($0)" }, "records")
            for record in records {
                let name = record.key.id.dropFirst()
                try expect.equal(record.fields["name"], .string("board \(name)"), "the name of \(record.key)")
            }
        },
        rule("what is sent again under its key is a duplicate, with the first verdict") { subject, expect in
            let first = try await subject.exchange.exchange(request("c-1", [board(1)]))
            let again = try await subject.exchange.exchange(request("c-2", [board(1)]))
            try expect.equal(again.results.map(\.isDuplicate), [true], "duplicate")
            try expect.equal(again.results.map(\.verdict), first.results.map(\.verdict), "verdicts")
            try expect.equal(again.currentSyncVersion, first.currentSyncVersion, "the server's version")
        },
        rule("each answer is its own request's, also where several are under way") { subject, expect in
            let exchange = subject.exchange
            let told = try await withThrowingTaskGroup(of: (String, [String]).self) { group in
                for number in 1...8 {
                    group.addTask {
                        let answer = try await exchange.exchange(
                            request("c-\(number)", from: "device-\(number)", [board(number)]))
                        return ("key-\(number)", answer.results.map(\.changeID))
                    }
                }
                return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
            try expect.equal(
                told, Dictionary(uniqueKeysWithValues: (1...8).map { ("key-\($0)", ["key-\($0)"]) }), "told")
        },
        rule("making a request ready sends nothing, and answers it as without") { subject, expect in
            let request = request("c-1", [board(1)])
            let prepared = subject.exchange.prepare(request)
            if let sent = subject.sent { try expect.equal(sent(), 0, "requests") }
            let answer = try await subject.exchange.exchange(request, prepared: prepared)
            try expect.equal(answer.results.map(\.changeID), ["key-1"], "verdicts")
            if let sent = subject.sent { try expect.equal(sent(), 1, "requests") }
        },
        rule("what was made of another request does not go in its place") { subject, expect in
            let prepared = subject.exchange.prepare(request("c-1", [board(1)]))
            let answer = try await subject.exchange.exchange(request("c-2", [board(2), board(3)]), prepared: prepared)
            try expect.equal(answer.results.map(\.changeID).sorted(), ["key-2", "key-3"], "verdicts")
        },
    ]
}
