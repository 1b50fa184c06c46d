public import SyncCore

/// A change sender made of two closures: for an API without a dialect of its own, for examples and for tests.
public struct ClosureSender: ChangeSender {
    public let sendsValues: Bool
    private let sending: @Sendable ([Change], String) async throws(ExchangeFailure) -> [ChangeResult]
    private let probing: @Sendable () async throws(ExchangeFailure) -> Void

    /// - Parameters:
    ///   - sendsValues: whether it says what fields are to be, and not what was done to them.
    ///   - probe: asks the server for something else than a change, and throws if that does not work either.
    ///   - send: sends the changes in order under this device's id, and returns a verdict for each that got one.
    public init(
        sendsValues: Bool = false, probe: @escaping @Sendable () async throws(ExchangeFailure) -> Void,
        send: @escaping @Sendable ([Change], String) async throws(ExchangeFailure) -> [ChangeResult]
    ) {
        self.sendsValues = sendsValues
        sending = send
        probing = probe
    }

    public func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        try await sending(changes, deviceID)
    }

    public func probe() async throws(ExchangeFailure) { try await probing() }
}
