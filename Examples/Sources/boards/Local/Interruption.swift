import UnixSignals

/// Somebody's wish that a long command ends: noted from the moment on in which the signals are trapped, whether anybody waits for it
/// already, or just then does not.
actor Interruption {
    private var isWished = false
    private var waiting: AsyncStream<Never>.Continuation?

    /// Runs `body`, which SIGINT and SIGTERM do not end; they are its to wait for.
    static func noting<T: Sendable>(
        _ body: (Interruption) async throws -> T
    ) async throws -> T {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let interruption = Interruption()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in signals { break }
                await interruption.wish()
            }
            defer { group.cancelAll() }
            return try await body(interruption)
        }
    }

    func wish() {
        isWished = true
        waiting?.finish()
    }

    /// Returns once it is wished, or the task is cancelled. One waits at a time.
    func wait() async {
        guard !isWished else { return }
        let (wishes, waiting) = AsyncStream<Never>.makeStream()
        self.waiting = waiting
        for await _ in wishes {}
    }
}
