internal import NIOCore

/// Runs tasks on an event loop.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// An executor for each event loop of a group.
struct LoopExecutors: Sendable {
    private let executors: [ObjectIdentifier: LoopExecutor]

    init(_ group: any EventLoopGroup) {
        executors = Dictionary(
            group.makeIterator().map { (ObjectIdentifier($0), LoopExecutor($0)) }, uniquingKeysWith: { $1 })
    }

    /// The loop's executor; nil for a loop of another group.
    subscript(loop: any EventLoop) -> LoopExecutor? { executors[ObjectIdentifier(loop)] }
}
