public import SyncCore

/// A fetcher on trial, and how the suite makes its requests go wrong.
public struct RecordFetcherSubject: Sendable {
    /// What becomes of one request.
    public enum Fate: Sendable, Hashable {
        /// The server answers 503.
        case refused
        /// It is under way until it is cancelled.
        case held
    }

    public var fetcher: any RecordFetcher
    /// What the server was asked for, each time that it was, in order.
    public var asked: @Sendable () -> [DownloadRequest]
    /// Says what becomes of the next request.
    public var suffer: @Sendable (Fate) -> Void
    /// Waits until one request is held.
    public var waitForHeld: @Sendable () async -> Void

    public init(
        fetcher: any RecordFetcher, asked: @escaping @Sendable () -> [DownloadRequest],
        suffer: @escaping @Sendable (Fate) -> Void, waitForHeld: @escaping @Sendable () async -> Void
    ) {
        self.fetcher = fetcher
        self.asked = asked
        self.suffer = suffer
        self.waitForHeld = waitForHeld
    }
}

/// What every ``RecordFetcher`` must keep; run each rule on a fresh one.
///
/// That everything newer was applied is for the store to say: the suite looks at what is asked, and at what comes of a failure.
public enum RecordFetcherContract {
    public static let rules: [ContractRule<RecordFetcherSubject>] = [
        rule("a wish is asked for as it is, once for each call") { subject, expect in
            let wishes = [
                DownloadRequest(scope: "board:b1", priority: 3), DownloadRequest(scope: "", priority: 0),
                DownloadRequest(scope: "board:b1", priority: 3),
            ]
            for wish in wishes { try await subject.fetcher.fetch(wish) }
            try expect.equal(subject.asked(), wishes, "asked")
        },
        rule("D11: what failed is thrown as it came, and not repeated") { subject, expect in
            subject.suffer(.refused)
            let failure = try await expect.failure { () async throws(ExchangeFailure) in
                try await subject.fetcher.fetch(DownloadRequest(scope: "board:b1", priority: 1))
            }
            try expect.equal(failure.kind, .temporary, "kind")
            try expect.equal(failure.isCancelled, false, "cancelled")
            try expect.equal(subject.asked().count, 1, "asked")
        },
        rule("a cancelled fetch fails as cancelled, and the next one goes") { subject, expect in
            subject.suffer(.held)
            let wish = DownloadRequest(scope: "board:b1", priority: 1)
            let task = Task { () -> ExchangeFailure? in  // owner: this rule, which waits for it
                do throws(ExchangeFailure) {
                    try await subject.fetcher.fetch(wish)
                    return nil
                } catch {
                    return error
                }
            }
            await subject.waitForHeld()
            task.cancel()
            try expect.equal(await task.value?.isCancelled, true, "cancelled")
            try await subject.fetcher.fetch(wish)
            try expect.equal(subject.asked(), [wish, wish], "asked")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (RecordFetcherSubject, Expectation) async throws -> Void
    ) -> ContractRule<RecordFetcherSubject> { ContractRule("RecordFetcher", name, body) }
}
