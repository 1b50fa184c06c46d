import HTTPTypes

/// The innermost step: one request on the wire, its answer taken whole, inflated and bounded.
struct WireCaller: Caller {
    let http: any HTTPTransport
    let limits: AnswerLimits

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        watch.begin(uploading: call.body.count)
        var request = call.request
        if !call.body.isEmpty || request.method == .post || request.method == .put {
            request.headerFields[.contentLength] = "\(call.body.count)"
        }
        request.headerFields[.acceptEncoding] = "gzip"
        request.headerFields[.requestID] = call.id
        let answer = try await http.send(request, body: call.body)
        let start = watch.now
        try watch.progress(received: 0, since: start)
        let collector = try collector(for: answer.head)
        while let piece = try await answer.body.next() {
            try collector.append(piece)
            try watch.progress(received: collector.received, since: start)
        }
        try checkLength(answer.head, received: collector.received)
        return Answer(
            head: answer.head, body: try collector.finish(), bytesSent: call.body.count,
            bytesReceived: collector.received)
    }

    private func collector(for head: HTTPResponse) throws(HTTPFailure) -> BodyCollector {
        let codings = head.headerFields[values: .contentEncoding].flatMap { $0.split(separator: ",") }
            .map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }.filter { $0 != "identity" && !$0.isEmpty }
        guard codings.isEmpty || codings == ["gzip"] || codings == ["x-gzip"] else {
            throw HTTPFailure(.unusable, "expected gzip or no content coding; \(codings.joined(separator: ", ")) came")
        }
        return try BodyCollector(limits: limits, isGzip: !codings.isEmpty)
    }

    /// An HTTP client sees this itself; one that does not must not make a half answer whole.
    private func checkLength(_ head: HTTPResponse, received: Int) throws(HTTPFailure) {
        guard head.status.code != 204, head.status.code != 304, head.headerFields[.transferEncoding] == nil,
            let text = head.headerFields[.contentLength], let length = Int(text), length != received
        else { return }
        throw HTTPFailure(.interrupted, "expected \(length) bytes of answer; \(received) came")
    }
}
