import Foundation
import GRDB

/// How a connection waits for the lock of another one, in this process or another.
///
/// SQLite's own way sleeps longer each time, up to 100 ms, and so misses the moments between two slices that another
/// process applies. Here each look comes after the same short time.
enum Patience {
    private static let microseconds: useconds_t = 2_000

    /// - Parameter seconds: how long, about; each look takes a little longer than its sleep.
    static func mode(seconds: Double) -> Database.BusyMode {
        guard seconds > 0 else { return .immediateError }
        let most = Int((seconds * 1_000_000 / Double(microseconds)).rounded(.up))
        return .callback { tries in
            guard tries < most else { return false }
            usleep(microseconds)  // live: a lock tells nobody when it is let go
            return true
        }
    }
}
