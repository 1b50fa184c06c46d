/// Sends changes one request each and brings verdicts (PROTOCOL.md, section 2).
///
/// Asked for by UploadQueue's `run`, given by Transport's REST dialect; a closure is enough for a test. It never
/// repeats a write by itself (DESIGN.md, D11).
public protocol ChangeSender: Sendable {
    /// Whether it says what fields are to be, and not what was done to them: ``ClaimLimits/sendsValues``. What wraps another one
    /// passes it on. `false` where nothing else is said.
    var sendsValues: Bool { get }
    /// Sends the changes in order and returns a verdict for each that got one.
    /// - Throws: ``ExchangeFailure`` where no verdict came; for several changes, none of them got one.
    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult]
    /// Asks the server for something else than a change (a small read), after one failed again and again.
    ///
    /// If it works, the failures were the change's own; if not, the server's (PROTOCOL.md section 4, *suspect*).
    /// - Throws: ``ExchangeFailure`` where the server did not answer this either.
    func probe() async throws(ExchangeFailure)
}

extension ChangeSender {
    public var sendsValues: Bool { false }
}
