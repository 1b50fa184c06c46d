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
        let facts = BodyFacts(answer.head.headerFields)
        let collector = try collector(facts)
        while let piece = try await answer.body.next() {
            try collector.append(piece)
            try watch.progress(received: collector.received, since: start)
        }
        try checkLength(answer.head.status.code, facts, received: collector.received)
        return Answer(
            head: answer.head, mediaType: facts.mediaType, body: try collector.finish(), bytesSent: call.body.count,
            bytesReceived: collector.received)
    }

    private func collector(_ facts: BodyFacts) throws(HTTPFailure) -> BodyCollector {
        let codings = facts.codings
        guard codings.isEmpty || codings == ["gzip"] || codings == ["x-gzip"] else {
            throw HTTPFailure(.unusable, "expected gzip or no content coding; \(codings.joined(separator: ", ")) came")
        }
        return try BodyCollector(limits: limits, isGzip: !codings.isEmpty)
    }

    /// An HTTP client sees this itself; one that does not must not make a half answer whole.
    private func checkLength(_ status: Int, _ facts: BodyFacts, received: Int) throws(HTTPFailure) {
        guard status != 204, status != 304, !facts.isTransferEncoded, let length = facts.length, length != received
        else { return }
        throw HTTPFailure(.interrupted, "expected \(length) bytes of answer; \(received) came")
    }
}
