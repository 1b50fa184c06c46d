import Ferry
import Foundation
import HTTPTypes

/// Prints what a list of changes becomes on the wire, in both dialects, without a network.
///
///     Examples/run transport
@main
struct Program {
    static func main() async throws {
        print("Three changes, as the queue holds them:\n")
        for change in changes { print("  " + words(change)) }

        print("\n\nThe batch dialect carries them in one round trip:\n")
        let batch = try BatchExchange(
            endpoint: "https://api.example.com", http: Paper(answer: batchAnswer),
            credentials: FixedCredentials(Token(value: "secret")))
        let answer = try await batch.exchange(
            ExchangeRequest(
                cycleID: "0b6f", deviceID: "5d1c", dataset: "d-31", epoch: "e-7f", lastSyncVersion: 41, settled: 16,
                changes: changes))
        for result in answer.results { print("  verdict about \(result.changeID): \(words(result.verdict))") }
        for record in try answer.page.next(maxRecords: 500, maxBytes: 1 << 20) {
            print("  changed by somebody else: \(record.key), version \(record.version)")
        }

        print("\n\nBy REST each is a request of its own:\n")
        let rest = try RESTSender(
            endpoint: "https://api.example.com", mappings: ["card": RESTMapping(collection: "cards")],
            http: Paper(answer: restAnswer), credentials: FixedCredentials(Token(value: "secret")))
        for result in try await rest.send(changes, deviceID: "5d1c") {
            print("  verdict about \(result.changeID): \(words(result.verdict))\n")
        }
    }

    static let changes = [
        Change(
            id: "c0ff-1", sequence: 17, record: RecordKey("card", "8f2e"), operation: .create,
            stamp: Stamp("0195a3f2c4d1-0004") ?? .zero,
            fields: [
                "name": FieldDelta(old: nil, new: "Water the garden"), "idList": FieldDelta(old: nil, new: "77ab"),
            ]),
        Change(
            id: "c0ff-2", sequence: 18, record: RecordKey("card", "91d0"), operation: .update,
            stamp: Stamp("0195a3f2c4d2-0000") ?? .zero, baseVersion: 40,
            fields: ["votes": FieldDelta(old: 3, new: 4, rule: .sum)], intent: "vote"),
        Change(
            id: "c0ff-3", sequence: 19, record: RecordKey("card", "a001"), operation: .delete,
            stamp: Stamp("0195a3f2c4d3-0000") ?? .zero, baseVersion: 12),
    ]

    static func words(_ change: Change) -> String {
        let fields = change.fields.sorted { $0.key < $1.key }.map { name, delta in
            "\(name) \(delta.old.map(words) ?? "none") → \(words(delta.new))"
        }
        return "\(change.sequence). \(change.operation.rawValue) \(change.record)"
            + (fields.isEmpty ? "" : ": " + fields.joined(separator: ", "))
    }

    static func words(_ value: FieldValue) -> String {
        do { return try value.jsonText() } catch { return "\(error)" }
    }

    static func words(_ verdict: Verdict) -> String {
        switch verdict {
        case .applied(let version, _, _): "applied" + (version.map { ", version \($0)" } ?? "")
        case .merged(let record): "merged, version \(record.version)"
        case .conflict(let record): "conflict with version \(record.version)"
        case .rejected(let rejection): "rejected, \(rejection.code.rawValue): \(rejection.message)"
        case .blocked(let key): "blocked by \(key)"
        case .retry: "later"
        }
    }

    @Sendable static func batchAnswer(_ request: HTTPRequest) -> (status: Int, body: String) {
        (
            200,
            """
            {"protocol":1,"cycleID":"0b6f","dataset":"d-31","epoch":"e-7f","currentSyncVersion":57,"hasMore":false,
             "count":1,"results":[{"changeID":"c0ff-1","verdict":"applied","version":54},
             {"changeID":"c0ff-2","verdict":"applied","version":55},{"changeID":"c0ff-3","verdict":"applied","version":56}],
             "changedRecords":[{"entity":"card","id":"b7e2","version":57,"deleted":false,"fields":{"name":"Seeds"}}]}
            """
        )
    }

    @Sendable static func restAnswer(_ request: HTTPRequest) -> (status: Int, body: String) {
        switch request.method {
        case .post: (201, #"{"id":"8f2e","version":54,"name":"Water the garden","idList":"77ab"}"#)
        case .put: (200, #"{"id":"91d0","version":55,"votes":4}"#)
        default: (204, "")
        }
    }
}

/// An HTTP client that sends nothing: it prints each request, and answers it from memory.
struct Paper: HTTPTransport {
    let answer: @Sendable (HTTPRequest) -> (status: Int, body: String)

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        print("  \(request.method) \(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")")
        for field in request.headerFields.sorted(by: { $0.name.canonicalName < $1.name.canonicalName }) {
            // New in every run, and of no interest here.
            if field.name.canonicalName == "x-request-id" { continue }
            print("  \(field.name): \(field.name == .authorization ? "Bearer …" : field.value)")
        }
        if !body.isEmpty { print("\n" + indented(body)) }
        print("")
        let (status, text) = answer(request)
        var head = HTTPResponse(status: .init(code: status))
        if !text.isEmpty { head.headerFields[.contentType] = "application/json" }
        return HTTPAnswer(head: head, body: HTTPBody(Array(text.utf8)))
    }

    func close() async {}

    /// The body line by line, with the members in order of their names, so that it is quick to read.
    private func indented(_ body: [UInt8]) -> String {
        guard let object = try? JSONSerialization.jsonObject(with: Data(body)),
            let data = try? JSONSerialization.data(withJSONObject: object, options: [.prettyPrinted, .sortedKeys])
        else { return "  (\(body.count) bytes of gzip)" }
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map { "  " + $0 }.joined(separator: "\n")
    }
}
