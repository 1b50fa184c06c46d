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
struct SlicePace {
    private let most: Duration
    /// The present number; a slice that is shorter goes as it is.
    private(set) var records = Int.max
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
        if took > most {
            records = max(Self.fewest, Int(Double(min(taken, records)) * (most / took)))
        } else if records < Int.max, taken >= records, took < most / 2 {
            records = records > Int.max / 2 ? Int.max : records * 2
        }
    }
}
