import SyncCore

/// The time that a transaction of slices may take: so long the app's own writes wait for it, and they wait 50 ms at most.
struct SliceBudget {
    private let elapsed: @Sendable () -> Duration
    private let most: Duration

    /// Begins now.
    init(_ clock: any _Concurrency.Clock<Duration>, most: Duration) {
        elapsed = Self.start(clock)
        self.most = most
    }

    private static func start<C: _Concurrency.Clock<Duration>>(_ clock: C) -> @Sendable () -> Duration {
        let began = clock.now
        return { began.duration(to: clock.now) }
    }

    var used: Duration { elapsed() }
    var isSpent: Bool { used >= most }
}

/// How many records one transaction takes at most, by what those before it took.
///
/// A transaction looks at the clock while it applies records (``SliceBudget``); what follows them, derived data and the
/// commit, it learns of too late. So the next one takes fewer where one took longer than it may, and more again slowly.
/// Where fewer records take hardly less time, what is derived of them costs the same however few they are, and each
/// transaction pays it again: then it may take twice that long, and the records are as many as fit in (Decision 291).
struct SlicePace {
    private let most: Duration
    /// The present number; a slice that is shorter goes as it is.
    private(set) var records = Int.max
    /// The longest that took too long since the last estimate.
    private var slow: (records: Int, took: Duration)?
    /// What a transaction takes of which no record is looked at, where that alone is too long; else zero.
    private var least = Duration.zero
    private static let fewest = 8

    init(most: Duration) { self.most = most }

    /// Those that go into the next transaction; records of one version are never parted.
    func first(of all: [ServerRecord]) -> [ServerRecord] {
        guard records < all.count else { return all }
        var end = records
        while end < all.count, all[end].version == all[end - 1].version { end += 1 }
        return Array(all[..<end])
    }

    /// So many records took so long, their commit included.
    mutating func note(_ taken: Int, took: Duration) {
        guard taken > 0 else { return }
        if took <= most { (slow, least) = (nil, .zero) }
        let bound = max(most, least * 2)
        guard took <= bound else { return tooLong(taken, took, bound) }
        // It is at least `least` anyway, which is half of the bound then.
        let isShort = took < (least > .zero ? bound * 3 / 4 : bound / 2)
        if records < Int.max, taken >= records, isShort {
            records = records > Int.max / 2 ? Int.max : records * 2
        }
    }

    private mutating func tooLong(_ taken: Int, _ took: Duration, _ bound: Duration) {
        if let slow, taken <= max(slow.records / 2, Self.fewest) {
            estimate(taken, took, slow)
        } else {
            if taken > slow?.records ?? 0 { slow = (taken, took) }
            records = max(Self.fewest, Int(Double(min(taken, records)) * (bound / took)))
        }
    }

    /// Half as many records, or as few as it goes, took too long as well: the line through both says what each of them takes, and
    /// what all transactions do.
    private mutating func estimate(_ taken: Int, _ took: Duration, _ slow: (records: Int, took: Duration)) {
        let each = slow.records > taken ? max(.zero, (slow.took - took) / (slow.records - taken)) : .zero
        least = max(.zero, min(took, slow.took) - each * taken)
        self.slow = nil
        let rest = max(most, least * 2) - least
        // More at once would be a guess from far away.
        let most = max(taken, Self.fewest) * 16
        records = each > .zero ? max(Self.fewest, Int(min(rest / each, Double(most)))) : most
    }
}
