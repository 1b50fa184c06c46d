import HTTPTypes

/// Follows 307 and 308 within the same origin, with the same method, body and headers; other redirects never.
///
/// Another origin would get the token, and would answer for a server that it is not.
struct RedirectCaller: Caller {
    private static let most = 5

    let endpoint: Endpoint
    let next: any Caller

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        var call = call
        var sent = 0
        var received = 0
        for _ in 0...Self.most {
            var answer = try await next.call(call, watch: watch)
            sent += answer.bytesSent
            received += answer.bytesReceived
            answer.bytesSent = sent
            answer.bytesReceived = received
            guard answer.status == 307 || answer.status == 308, let location = answer.head.headerFields[.location],
                let path = endpoint.resolve(location, from: call.request.path ?? "/")
            else { return answer }
            call.request.path = path
        }
        throw HTTPFailure(.unusable, "expected at most \(Self.most) redirects; more came")
    }
}
