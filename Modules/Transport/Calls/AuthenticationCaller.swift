public import HTTPTypes

/// What proves to the server who asks. ``BearerAuthentication`` is the contract's; an app can bring another.
public protocol Authentication: Sendable {
    /// The request with its proof; called for every request, just before it is sent.
    ///
    /// - Throws: `authentication` where nothing can be sent without the user or for another account, `local` where
    ///   trying later may do.
    func authenticate(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPRequest

    /// Gets a new proof, after the server answered 401 to `request`; many may ask at once, and one renewal must do.
    ///
    /// - Returns: whether the request should be sent once more; `false` if only the user can help.
    func renew(after request: HTTPRequest) async throws(HTTPFailure) -> Bool
}

/// Adds the proof to each request; after a 401 asks once for a new one and sends the request once more.
struct AuthenticationCaller: Caller {
    let authentication: any Authentication
    let next: any Caller

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        let proved = try await prove(call, watch)
        let answer = try await next.call(proved, watch: watch)
        guard answer.status == 401 else { return answer }
        watch.waitForCredentials()
        guard try await authentication.renew(after: proved.request) else { return answer }
        // A 401 says that nothing was done: sending again repeats no write.
        var second = try await next.call(prove(call, watch), watch: watch)
        second.bytesSent += answer.bytesSent
        second.bytesReceived += answer.bytesReceived
        return second
    }

    private func prove(_ call: Call, _ watch: Watch) async throws(HTTPFailure) -> Call {
        watch.waitForCredentials()
        var proved = call
        proved.request = try await authentication.authenticate(call.request, body: call.body)
        return proved
    }
}
