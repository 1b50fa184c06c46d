import Foundation

/// Lets one process after the other open a file: making one and switching it to WAL take locks for which SQLite itself
/// does not wait.
///
/// It is an advisory lock on the folder, so nothing is left behind, and the system lets it go with the process. Whoever
/// does not get it in time goes on: SQLite's own waiting then decides.
struct OpeningLock {
    private let descriptor: Int32

    /// How long one look at the lock is from the next, in milliseconds.
    private static let pause = 5

    /// - Parameter seconds: how long it is waited for.
    init(forFileAt path: String, seconds: Double) {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        descriptor = open(folder, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        // By a clock: on a busy machine a pause is longer than it was asked for.
        let end = ContinuousClock.now + .seconds(seconds)  // live: a lock is waited for
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0, ContinuousClock.now < end {  // live: as above
            usleep(UInt32(Self.pause) * 1_000)  // live: as above
        }
    }

    func letGo() { if descriptor >= 0 { close(descriptor) } }
}
