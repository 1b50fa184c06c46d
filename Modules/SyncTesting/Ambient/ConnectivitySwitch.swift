public import SyncCore
import Foundation

/// A connection that a test switches on and off, in front of any exchange; off, every request fails at once.
public final class ConnectivitySwitch: Exchange, @unchecked Sendable {
    // Sendable: `isOn` is used under `lock` alone.
    private let lock = NSLock()
    private let inner: any Exchange
    private var isOn: Bool

    public init(_ inner: any Exchange, isOn: Bool = true) {
        self.inner = inner
        self.isOn = isOn
    }

    /// Whether requests get through.
    public var isConnected: Bool {
        get { lock.withLock { isOn } }
        set { lock.withLock { isOn = newValue } }
    }

    public func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        guard isConnected else { throw .unreachable }
        return try await inner.exchange(request)
    }

    public func close() async { await inner.close() }
}
