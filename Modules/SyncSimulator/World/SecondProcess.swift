/// Another process of a device's app, with the same files open as the one that lives: an extension, a command (FAILURES.md, PRC-11).
struct SecondProcess {
    /// Counted on its device.
    let number: Int
    let process: SimulatedDevice.Process
    let life: Life
    /// When it is to stand still, as the system makes an extension stand.
    let standing: FaultTape.Standing?
    /// Whether it stands.
    var stands = false
    /// The account whose it is was signed out in the other process.
    var isSignedOut = false
    /// How many requests it has sent.
    var requests = 0

    /// What becomes of it while its device lives.
    enum Event {
        case goesOn
        case ends(isKilled: Bool)
    }

    /// Whether it lives: where it is killed alone, its statements fail, and its commits.
    final class Life: @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        var isDead = false
    }

    /// More processes than a device ever has one after the other.
    static let firstNumber = 500
    /// The number by which the system knows it, as leases name it: of a process that always lives, and is not this one.
    static let systemNumber: Int32 = 1
}
