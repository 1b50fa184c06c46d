import SyncCore

extension SyncEngine {
    /// Ends ``run()`` and closes the exchange, with its HTTP client and all connections; for good, where ``stop()`` only
    /// ends the run. What is not sent stays in the store, which is the app's to close.
    public func close() async {
        stop()
        await exchange.close()
    }
}
