import Dispatch
import Foundation

/// A serial executor on a thread of its own: what it runs may block on a file.
///
/// The thread ends with the executor.
public final class FileExecutor: SerialExecutor {
    private let thread = FileThread()
    /// The same thread for tasks that are nobody's: what belongs to the file's work need not leave it.
    public let tasks: any TaskExecutor

    public init() { tasks = Tasks(thread) }

    deinit { thread.finish() }

    public func enqueue(_ job: consuming ExecutorJob) { thread.add(FileThread.Entry(UnownedJob(job), serial: self)) }

    /// An object of its own: of an executor that is both, the runtime cannot say as which it is asked, and goes round once more.
    fileprivate final class Tasks: TaskExecutor {
        private let thread: FileThread

        init(_ thread: FileThread) { self.thread = thread }

        func enqueue(_ job: consuming ExecutorJob) { thread.add(FileThread.Entry(UnownedJob(job), tasks: self)) }
    }
}

/// The thread: runs jobs in the order in which they came.
///
/// On Apple's platforms a dispatch queue, which hands a waiting user's priority on. Elsewhere a queue wakes two of its workers
/// for each job from outside, and on a machine with few cores the one that finds nothing is in the way: so it is a thread.
private final class FileThread: @unchecked Sendable {  // the condition guards what changes
    /// A job, and as whose it runs; that one lives until it has run.
    struct Entry {
        private let job: UnownedJob
        private var serial: FileExecutor?
        private var tasks: FileExecutor.Tasks?

        init(_ job: UnownedJob, serial: FileExecutor) {
            self.job = job
            self.serial = serial
        }

        init(_ job: UnownedJob, tasks: FileExecutor.Tasks) {
            self.job = job
            self.tasks = tasks
        }

        func run() {
            if let serial { job.runSynchronously(on: serial.asUnownedSerialExecutor()) }
            if let tasks { job.runSynchronously(on: tasks.asUnownedTaskExecutor()) }
        }
    }

    #if canImport(Darwin)
        private let queue = DispatchQueue(label: "storage")  // live

        func add(_ entry: Entry) { queue.async { entry.run() } }

        func finish() {}
    #else
        private let condition = NSCondition()
        private var waiting: [Entry] = []
        private var isOver = false

        init() {
            // Begun at once: who opens a file uses it.
            let thread = Thread { [self] in work() }  // live
            thread.name = "storage"
            thread.start()
        }

        func add(_ entry: Entry) {
            condition.lock()
            waiting.append(entry)
            // Whoever runs has not gone to sleep, and looks again.
            let mayRest = waiting.count == 1
            condition.unlock()
            // After the lock: who is woken wants it, and would sleep again at once.
            if mayRest { condition.signal() }
        }

        func finish() {
            condition.lock()
            isOver = true
            condition.signal()
            condition.unlock()
        }

        private func work() {
            var batch: [Entry] = []
            while true {
                condition.lock()
                while waiting.isEmpty && !isOver { condition.wait() }
                swap(&batch, &waiting)
                condition.unlock()
                // What came before the end is still run.
                guard !batch.isEmpty else { return }
                for entry in batch { entry.run() }
                batch.removeAll(keepingCapacity: true)
            }
        }
    #endif
}
