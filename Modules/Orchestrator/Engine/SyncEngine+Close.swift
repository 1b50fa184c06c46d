import SyncCore

extension SyncEngine {
    /// Ends ``run()`` and closes the exchange, with its HTTP client and all connections; for good, where ``stop()`` only
    /// ends the run: one that begins later ends at once. The streams of ``statuses()`` and ``events()`` end then, too.
    /// What is not sent stays in the store, which is the app's to close.
    public func close() async {
        isClosed = true
        stop()
        await exchange.close()
        finishStreams()
    }
}
