/// Time in the background, as the system gives it.
///
/// Asked for by the engine, given by the platform (`SystemBackgroundTime` where there is a `BGTaskScheduler`), by an app, or
/// by a test. The system's promise is only a hint: it may give less, later, or nothing.
public protocol BackgroundTime: Sendable {
    /// Asks for one round, not before this time (milliseconds since 1970); a later call replaces an earlier one.
    func ask(notBeforeMilliseconds time: Int64) async
    /// The rounds that the system gives. Each call has a stream of its own, which ends with the task that listens; a later
    /// run of the engine listens anew.
    func grants() -> AsyncStream<BackgroundGrant>
}

/// One round in the background.
public struct BackgroundGrant: Sendable {
    /// How long it may take.
    public let limit: Duration
    /// Ends, or speaks, when the system wants its time back early.
    public let expiry: AsyncStream<Void>
    /// Tells the system that the round is over, and whether it was of use; called once.
    public let finish: @Sendable (_ isDone: Bool) -> Void

    public init(limit: Duration, expiry: AsyncStream<Void>, finish: @escaping @Sendable (_ isDone: Bool) -> Void) {
        self.limit = limit
        self.expiry = expiry
        self.finish = finish
    }
}

#if canImport(BackgroundTasks) && (os(iOS) || os(tvOS) || os(visionOS))
    import BackgroundTasks
    import Foundation

    /// Rounds by `BGTaskScheduler`: make it before the app has finished launching, with an identifier that stands in its
    /// `BGTaskSchedulerPermittedIdentifiers`.
    public final class SystemBackgroundTime: BackgroundTime {
        private let identifier: String
        private let rounds = BackgroundGrants()

        /// - Parameter limit: how long one round may take; the system takes its time back earlier if it must.
        public init(identifier: String, limit: Duration = .seconds(25)) {
            self.identifier = identifier
            BGTaskScheduler.shared.register(forTaskWithIdentifier: identifier, using: nil) { [rounds] task in
                // Sendable: the system's object is only told, from one place each, that it expired and that it is over.
                nonisolated(unsafe) let task = task
                task.expirationHandler = rounds.give(limit) { task.setTaskCompleted(success: $0) }
            }
        }

        public func ask(notBeforeMilliseconds time: Int64) async {
            let request = BGAppRefreshTaskRequest(identifier: identifier)
            request.earliestBeginDate = Date(timeIntervalSince1970: Double(time) / 1_000)
            do {
                try BGTaskScheduler.shared.submit(request)
            } catch {
                // kept: background time is switched off, or there is none here: the app syncs when it is opened.
                return
            }
        }

        public func grants() -> AsyncStream<BackgroundGrant> { rounds.stream() }
    }
#endif
