/// An actor that lets others use its thread for what they do together with it.
///
/// For an actor on an executor of its own (a thread, since what it does may block). A task that prefers its executor goes on
/// there between the actor's calls as well, and changes no thread on the way. Whoever does that shares the thread: while one
/// computes, the other waits.
public protocol ThreadSharing: Actor {
    /// Runs tasks on the actor's own thread; `nil` where there is none to share.
    nonisolated var taskExecutor: (any TaskExecutor)? { get }
}
