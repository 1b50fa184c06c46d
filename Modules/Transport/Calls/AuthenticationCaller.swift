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

    /// The server answered `request` with success: its proof is good. By default nothing comes of it.
    func accepted(_ request: HTTPRequest)
}

extension Authentication {
    public func accepted(_ request: HTTPRequest) {}
}

/// Adds the proof to each request; after a 401 asks once for a new one and sends the request once more.
struct AuthenticationCaller: Caller {
    let authentication: any Authentication
    let next: any Caller

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        let proved = try await prove(call, watch)
        let answer = try await next.call(proved, watch: watch)
        guard answer.status == 401 else {
            if (200..<300).contains(answer.status) { authentication.accepted(proved.request) }
            return answer
        }
        watch.waitForCredentials()
        guard try await authentication.renew(after: proved.request) else { return answer }
        // A 401 says that nothing was done: sending again repeats no write.
        let again = try await prove(call, watch)
        var second = try await next.call(again, watch: watch)
        if (200..<300).contains(second.status) { authentication.accepted(again.request) }
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
