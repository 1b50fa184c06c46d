import Foundation

/// Rounds in the background on their way from the system to whoever listens, one at a time.
///
/// A round that nobody took waits: an app that is started for it may not listen yet. One that the system wants back before it
/// was taken, or that another one replaces, is told to be over, since a system ends an app that forgets it.
final class BackgroundGrants: @unchecked Sendable {
    // Sendable: `waiting` and `last` are used under `lock` alone; nobody is told anything under it.
    private let lock = NSLock()
    private var waiting: (number: Int, grant: BackgroundGrant)?
    private var last = 0
    private let given = Signal()

    /// The rounds, for one listener at a time. What ends one stream, such as the end of its task, leaves nothing behind: the
    /// next stream goes on.
    func stream() -> AsyncStream<BackgroundGrant> {
        AsyncStream { await self.next() }
    }

    /// The system gives a round.
    /// - Returns: to be called when it wants the round back.
    func give(
        _ limit: Duration, finish: @escaping @Sendable (_ isDone: Bool) -> Void
    ) -> @Sendable () -> Void {
        let (expiry, expired) = AsyncStream.makeStream(of: Void.self)
        let (number, replaced) = lock.withLock { () -> (Int, BackgroundGrant?) in
            last += 1
            defer { waiting = (last, BackgroundGrant(limit: limit, expiry: expiry, finish: finish)) }
            return (last, waiting?.grant)
        }
        replaced?.finish(false)
        given.set()
        return {
            expired.finish()
            self.take(number)?.finish(false)
        }
    }

    private func next() async -> BackgroundGrant? {
        while !Task.isCancelled {
            if let grant = take() { return grant }
            await given.wait()
        }
        return nil
    }

    /// - Parameter number: this one only.
    private func take(_ number: Int? = nil) -> BackgroundGrant? {
        lock.withLock {
            guard let waiting, number == nil || waiting.number == number else { return nil }
            self.waiting = nil
            return waiting.grant
        }
    }
}
