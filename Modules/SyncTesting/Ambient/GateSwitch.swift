public import SyncCore
import Foundation

/// A gate that a test opens and closes.
public final class GateSwitch: Gate, @unchecked Sendable {
    // Sendable: `routine`, `user` and `questions` are used under `lock` alone.
    private let lock = NSLock()
    private var routine: GateAnswer
    private var user: GateAnswer
    private var questions: [Urgency] = []

    /// A gate with this answer for everybody.
    public init(_ answer: GateAnswer = .open) { (routine, user) = (answer, answer) }

    /// From now on everybody gets this answer: the server's word, where it is a closed gate.
    public func set(_ answer: GateAnswer) { lock.withLock { (routine, user) = (answer, answer) } }

    /// From now on the engine by itself gets this answer, and the user is let through: a back-off of our own.
    public func setForRoutine(_ answer: GateAnswer) { lock.withLock { (routine, user) = (answer, .open) } }

    /// Who asked, in order.
    public var asked: [Urgency] { lock.withLock { questions } }

    public func mayGo(_ urgency: Urgency) async -> GateAnswer {
        lock.withLock {
            questions.append(urgency)
            return urgency == .user ? user : routine
        }
    }
}
