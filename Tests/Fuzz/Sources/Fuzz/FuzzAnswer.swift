import Foundation
import HTTPTypes
import Logging
import SyncCore
import Transport

/// What a server may send: whatever it is, either it is proved and all of it can be read, or it is a failure.
enum FuzzAnswer {
    /// A body of the batch dialect.
    @Sendable static func page(_ bytes: [UInt8]) {
        exchange(CannedHTTP(fields: [(.contentType, "application/json")], body: bytes), isJSON: bytes)
    }

    /// A compressed body; small limits, so that growth shows.
    @Sendable static func packed(_ bytes: [UInt8]) {
        exchange(
            CannedHTTP(fields: [(.contentType, "application/json"), (.contentEncoding, "gzip")], body: bytes),
            isJSON: nil)
    }

    /// A status, headers, and a body: the text's first line is the status, lines up to an empty one are headers.
    @Sendable static func head(_ bytes: [UInt8]) {
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)[...]
        let status = Int(String(decoding: lines.popFirst() ?? [], as: UTF8.self)) ?? 500
        var fields: [(HTTPField.Name, String)] = []
        while let line = lines.popFirst(), !line.isEmpty {
            let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1)
            guard parts.count == 2, let name = HTTPField.Name(String(decoding: parts[0], as: UTF8.self)) else {
                continue
            }
            fields.append((name, String(decoding: parts[1], as: UTF8.self)))
        }
        let http = CannedHTTP(
            status: (100...599).contains(status) ? status : 500, fields: fields,
            body: Array(lines.joined(separator: [10])))
        exchange(http, isJSON: nil)
        send(http)
    }

    /// A body of the REST dialect.
    @Sendable static func change(_ bytes: [UInt8]) {
        let type = bytes.first == UInt8(ascii: "!") ? "application/problem+json" : "application/json"
        let body = bytes.first == UInt8(ascii: "!") ? Array(bytes.dropFirst()) : bytes
        for status in [200, 201, 409, 412, 422] {
            send(CannedHTTP(status: status, fields: [(.contentType, type)], body: body))
        }
    }

    private static let changes = (1...3).map { number in
        Change(
            id: "key-\(number)", sequence: Int64(number), record: RecordKey("card", "c\(number)"), operation: .update,
            stamp: Stamp(milliseconds: 1, counter: 0), baseVersion: 1, fields: ["name": FieldDelta(old: "A", new: "B")])
    }

    private static let quiet = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }

    private static func exchange(_ http: CannedHTTP, isJSON bytes: [UInt8]?) {
        wait {
            do {
                var options = BatchExchange.Options()
                options.answer = AnswerLimits(total: 1 << 20, memory: 1 << 12)
                let exchange = try BatchExchange(
                    endpoint: "https://localhost", http: http, options: options, logger: quiet)
                let request = ExchangeRequest(
                    cycleID: "cycle", deviceID: "device", epoch: "e", lastSyncVersion: 4, changes: changes)
                let answer = try await exchange.exchange(request)
                var seen: Set<RecordKey> = []
                var version: Int64 = 4
                while case let slice = try answer.page.next(maxRecords: 3, maxBytes: 200), !slice.isEmpty {
                    for record in slice {
                        must(record.version > version, "a version that does not rise")
                        must(seen.insert(record.key).inserted, "a record told twice")
                        version = record.version
                    }
                }
                must(seen.count == answer.page.count, "\(seen.count) records instead of \(answer.page.count)")
                must(version <= answer.currentSyncVersion, "a record above the answer's version")
                must(answer.results.count <= changes.count, "more verdicts than changes")
                if let bytes {
                    _ = try JSONSerialization.jsonObject(with: Data(bytes))
                }
            } catch let failure as ExchangeFailure {
                must(failure.message.utf8.count < 4_000, "a message without an end: \(failure.message)")
            } catch { fatalError("Foundation does not read a proved answer: \(error)") }
        }
    }

    private static func send(_ http: CannedHTTP) {
        wait {
            do {
                let sender = try RESTSender(
                    endpoint: "https://localhost", mappings: ["card": RESTMapping(collection: "cards")], http: http,
                    logger: quiet)
                let results = try await sender.send(changes, deviceID: "device")
                must(results.count <= changes.count, "more verdicts than changes")
            } catch let failure as ExchangeFailure {
                must(failure.message.utf8.count < 4_000, "a message without an end: \(failure.message)")
            } catch { fatalError("\(error)") }
        }
    }

    /// libFuzzer waits for an answer and knows no tasks: the main thread sleeps until the one task has ended.
    private static func wait(_ body: @escaping @Sendable () async -> Void) {
        let done = DispatchSemaphore(value: 0)
        Task {
            await body()
            done.signal()
        }
        done.wait()
    }
}

/// Answers every request with the same.
struct CannedHTTP: HTTPTransport {
    var status = 200
    var fields: [(HTTPField.Name, String)]
    var body: [UInt8]

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        var head = HTTPResponse(status: .init(code: status))
        for (name, value) in fields { head.headerFields.append(HTTPField(name: name, value: value)) }
        return HTTPAnswer(head: head, body: HTTPBody(self.body))
    }

    func close() async {}
}
