import Dispatch
import Foundation
import Synchronization

/// The user's word that many seeds are enough: what runs is run to its end, and told. A second one ends the program at once.
final class Interrupt: Sendable {
    private let came = Atomic(false)
    /// What a shell says of a program that an interrupt ended: no run that was ended early counts as one that passed.
    static let exitCode: Int32 = 130

    var hasCome: Bool { came.load(ordering: .relaxed) }

    /// Says it; what a signal does.
    func come() {
        if came.exchange(true, ordering: .relaxed) { exit(Interrupt.exitCode) }
    }

    /// Hears of the process's SIGINT and SIGTERM until what is returned is cancelled.
    func listen() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())  // live
            source.setEventHandler { self.come() }
            source.setCancelHandler { signal(number, SIG_DFL) }
            source.resume()
            return source
        }
    }
}
