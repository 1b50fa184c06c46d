import HTTPTypes
import SyncCore
import Transport

/// `Examples/run transport`: what a list of changes becomes on the wire, and what an answer becomes here. No network.
@main
struct TransportExample {
    static func main() async throws {
        let http = PrintedHTTP(answers: [
            (200, "application/json", answer),
            (200, "text/html", "<html><body>Welcome to our hotel. Accept the terms to go on.</body></html>"),
        ])
        let exchange = try BatchExchange(
            endpoint: "https://api.example.com", http: http,
            credentials: FixedCredentials(Token(value: "a-secret", account: "ann")), account: "ann")
        let request = ExchangeRequest(
            cycleID: "0195a3f2-c4d1-7000-8000-000000000001", deviceID: "a-phone", epoch: "e-7f", lastSyncVersion: 41,
            settled: 16, changes: changes)

        print("== Two changes go out\n")
        let answer = try await exchange.exchange(request)
        print("\n== Their verdicts, and what others changed\n")
        for result in answer.results { print("\(result.changeID): \(result.verdict)") }
        while case let records = try answer.page.next(maxRecords: 500, maxBytes: 1 << 20), !records.isEmpty {
            for record in records {
                print(
                    "\(record.key) is now at version \(record.version): \(try FieldValue.object(record.fields).jsonText())"
                )
            }
        }

        print("\n== The same once more, but a hotel answers\n")
        do {
            _ = try await exchange.exchange(request)
        } catch {
            print("\n== Which is no answer: nothing is applied, nothing is counted against a change\n")
            print(error)
        }
        await exchange.close()
    }

    private static var changes: [Change] {
        [
            Change(
                id: "c0ff0001", sequence: 17, record: RecordKey("card", "8f2e"), operation: .update,
                stamp: Stamp(milliseconds: 1_795_248_000_123, counter: 4), baseVersion: 40,
                fields: [
                    "name": FieldDelta(old: "A", new: "B"),
                    "votes": FieldDelta(old: 2, new: 3, rule: .sum),
                ]),
            Change(
                id: "c0ff0002", sequence: 18, record: RecordKey("card", "77ab"), operation: .create,
                stamp: Stamp(milliseconds: 1_795_248_000_123, counter: 5),
                fields: [
                    "name": FieldDelta(old: nil, new: "New"),
                    "thumbnail": FieldDelta(old: nil, new: .data([0xff, 0xd8, 0xff])),
                ]),
        ]
    }

    private static let answer = #"""
        {"protocol":1,"cycleID":"0195a3f2-c4d1-7000-8000-000000000001","epoch":"e-7f","currentSyncVersion":57,
         "hasMore":false,"count":1,
         "results":[{"changeID":"c0ff0001","verdict":"applied","version":55},
                    {"changeID":"c0ff0002","verdict":"applied","version":56}],
         "changedRecords":[{"entity":"board","id":"b-1","version":57,"deleted":false,"fields":{"name":"Home"}}]}
        """#
}

/// An HTTP client that prints what it would send, and answers from a list.
actor PrintedHTTP: HTTPTransport {
    private var answers: [(status: Int, type: String, text: String)]

    init(answers: [(status: Int, type: String, text: String)]) { self.answers = answers }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        guard !answers.isEmpty else { throw HTTPFailure(.noConnection, "there are no more answers") }
        print("> \(request.method.rawValue) \(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")")
        for field in request.headerFields { print("> \(field.name.canonicalName): \(field.value)") }
        print(">\n> \(String(decoding: body, as: UTF8.self))\n")
        let answer = answers.removeFirst()
        var head = HTTPResponse(status: HTTPResponse.Status(code: answer.status))
        head.headerFields[.contentType] = answer.type
        print("< \(answer.status)\n< content-type: \(answer.type)\n<")
        for line in answer.text.split(separator: "\n") { print("< \(line)") }
        return HTTPAnswer(head: head, body: HTTPBody(Array(answer.text.utf8)))
    }

    func close() async {}
}
