internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

extension ShellResponder {
    /// `GET /api/events`: an answer that goes on (PROTOCOL.md, section 3).
    ///
    /// The stream is among the streams before the present version is asked for, so that no commit falls between.
    func events(
        _ request: Request, account: String, authorization: String?, context: ShellContext
    ) throws(Problem) -> Answer {
        try limiter.openStream(account)
        let lastSeen = HTTPField.Name("Last-Event-ID").flatMap { request.headers[$0] }.flatMap { Int64($0.trimmed) }
        let channel = context.channel
        var answer = Answer(status: 200, type: "text/event-stream", body: [])
        answer.fields[.cacheControl] = "no-store"
        // Proxies that collect answers let this one through as it comes.
        if let name = HTTPField.Name("X-Accel-Buffering") { answer.fields[name] = "no" }
        pump.listen(to: account)
        channel.closeFuture.whenComplete { [limiter] _ in limiter.closeStream(account) }
        answer.stream = ResponseBody { [hub, backend] _ in
            try await withTaskCancellationHandler {
                try await hub.add(channel, account: account, authorization: authorization)
                if let lastSeen {
                    let present = try await backend.currentVersion(account: account)
                    if lastSeen < present { try await hub.catchUp(channel, account: account, version: present) }
                }
                try await channel.closeFuture.get()
            } onCancel: {
                channel.close(promise: nil)
            }
        }
        return answer
    }
}
