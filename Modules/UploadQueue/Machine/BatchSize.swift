/// How many changes one request may carry: halved by what is too large or keeps failing, doubled again by successes.
struct BatchSize: Sendable, Hashable {
    /// Successes at the full size before it is doubled, after the server called a request too large.
    static let successesAfterTooLarge = 8
    /// The same, after it was halved to find the change that makes requests fail.
    static let successesAfterSearch = 2

    /// The most there may ever be.
    let configured: Int
    /// The present limit; `nil` is the configured one.
    private(set) var limit: Int?
    private var successes = 0
    /// A limit from an earlier run was most likely a 413's.
    private var needed = BatchSize.successesAfterTooLarge

    init(configured: Int, limit: Int? = nil) {
        self.configured = max(1, configured)
        self.limit = limit.flatMap { $0 < self.configured ? max(1, $0) : nil }
    }

    var current: Int { limit ?? configured }

    /// A request with so many changes did not go through: the next one has half as many.
    mutating func halve(from count: Int, wasTooLarge: Bool) {
        limit = max(1, min(current, count) / 2)
        successes = 0
        needed = wasTooLarge ? Self.successesAfterTooLarge : Self.successesAfterSearch
    }

    /// A request with so many changes was answered; only a full one says that more might do.
    mutating func succeeded(with count: Int) {
        guard let limit, count >= limit else { return }
        successes += 1
        guard successes >= needed else { return }
        successes = 0
        let (next, overflow) = limit.multipliedReportingOverflow(by: 2)
        self.limit = overflow || next >= configured ? nil : next
    }
}
