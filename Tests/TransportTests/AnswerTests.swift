import SyncCore
import Testing

@testable import Transport

/// What an answer must be before anything of it has an effect (I14).
struct AnswerTests {
    private func exchange(_ body: String, _ request: ExchangeRequest = Sample.request()) async throws -> ExchangeAnswer
    {
        try await Sample.exchange(ScriptedHTTP([.of(200, body)])).exchange(request)
    }

    private let changes = (1...3).map { Sample.change($0) }

    @Test("a whole answer comes out as it was said")
    func whole() async throws {
        let body = Sample.answer([
            "count": "2", "checksum": "\"00ff00ff00ff00ff\"", "unknown": "{\"a\":[1]}",
            "results": """
            [{"changeID":"key-2","verdict":"applied","version":55,"overwrote":{"name":null},"clamped":true},
             {"changeID":"key-1","verdict":"rejected","error":{"code":"invalid","message":"No","field":"name"}},
             {"changeID":"foreign","verdict":"nonsense"}]
            """,
            "changedRecords": """
            [{"entity":"card","id":"a","version":56,"deleted":false,"fields":{"n":9007199254740993,"$data":"AA=="}},
             {"entity":"card","id":"b","version":57,"gone":true}]
            """,
        ])
        let answer = try await exchange(body, Sample.request(changes))
        #expect(answer.dataset == "d-1")
        #expect(answer.epoch == "e-1")
        #expect(answer.currentSyncVersion == 57)
        #expect(!answer.hasMore)
        #expect(answer.serverTimeMilliseconds == 1_795_248_000_123)
        #expect(answer.stamp == Stamp("0195a3f2c4d1-0004"))
        #expect(answer.oldestVersion == 0)
        #expect(answer.checksum == "00ff00ff00ff00ff")
        #expect(
            answer.results == [
                ChangeResult(
                    changeID: "key-1",
                    verdict: .rejected(Rejection(code: .invalid, message: "No", field: "name"))),
                ChangeResult(
                    changeID: "key-2", verdict: .applied(version: 55, overwrote: ["name": nil], serverID: nil),
                    isClamped: true),
            ])
        #expect(answer.page.count == 2)
        #expect(
            try answer.page.next(maxRecords: 10, maxBytes: 1 << 20) == [
                ServerRecord(
                    key: RecordKey("card", "a"), version: 56,
                    fields: ["n": .int(9_007_199_254_740_993), "$data": "AA=="]),
                ServerRecord(key: RecordKey("card", "b"), version: 57, presence: .gone),
            ])
        #expect(try answer.page.next(maxRecords: 10, maxBytes: 1 << 20).isEmpty)
    }

    @Test(
        "A verdict that reads as nearly all do is the same as with a space in it",
        arguments: [
            #""changeID":"key-1","verdict":"applied","version":7}"#,
            #""changeID":"key-1","verdict":"applied","version":0}"#,
            #""changeID":"key-1","verdict":"applied","version":-7}"#,
            #""changeID":"key-1","verdict":"applied","version":07}"#,
            #""changeID":"key-1","verdict":"applied","version":7.0}"#,
            #""changeID":"key-1","verdict":"applied","version":}"#,
            #""changeID":"key-1","verdict":"applied","version":9223372036854775807}"#,
            #""changeID":"key-1","verdict":"applied","version":9223372036854775808}"#,
            #""changeID":"key-1","verdict":"applied","version":7,"clamped":true}"#,
            #""changeID":"key-1","verdict":"applied","version":7,"version":8}"#,
            #""changeID":"key-2","verdict":"applied","version":7}"#,
            #""changeID":"key-10","verdict":"applied","version":7}"#,
            #""changeID":"key-1","verdict":"applied","version":7},{"changeID":"key-1","verdict":"applied","version":8}"#,
            #""changeID":"key-1","verdict":"applied","version":7},{"changeID":"key-1","verdict":"applied","version":7}"#,
            #""changeID":"key-1","verdict":"applied","version":7]"#,
            #""changeID":"key-1","verdict":"applied","version":7"#,
        ])
    func usualVerdict(_ text: String) async throws {
        var answers: [[ChangeResult]?] = []
        for begin in ["{", "{ "] {
            let body = Sample.answer(["results": "[\(begin)\(text)]", "count": "0", "changedRecords": "[]"])
            do {
                let http = ScriptedHTTP([.of(200, body)])
                answers.append(try await Sample.exchange(http).exchange(Sample.request(changes)).results)
            } catch is ExchangeFailure {
                answers.append(nil)
            }
        }
        #expect(answers[0] == answers[1])
    }

    @Test(
        "I14 an answer that is not of the contract's shape, or not to this request, is no answer",
        arguments: [
            ["protocol": "2"], ["protocol": ""], ["protocol": "\"1\""], ["cycleID": "\"other\""], ["cycleID": ""],
            ["cycleID": "null"], ["epoch": ""], ["epoch": "\"e-2\""], ["epoch": "null"], ["currentSyncVersion": ""],
            ["currentSyncVersion": "40"], ["currentSyncVersion": "1.5"], ["hasMore": ""], ["hasMore": "1"],
            ["count": ""], ["count": "1"], ["count": "-1"], ["results": ""], ["results": "{}"], ["results": "null"],
            ["changedRecords": ""], ["changedRecords": "{}"], ["stamp": "\"soon\""], ["oldestVersion": "\"0\""],
            ["hasMore": "true", "currentSyncVersion": "41"], ["checksum": "1"], ["dataset": "7"],
        ])
    func shape(_ members: [String: String]) async {
        let failure = await failure { try await exchange(Sample.answer(members)) }
        #expect(failure?.kind == .network)
        #expect(failure?.isCancelled == false)
    }

    @Test(
        "I14 a page that is not of the contract's shape is no answer",
        arguments: [
            "[1]", "[null]", "[[]]", #"[{"id":"a","version":50,"fields":{}}]"#,
            #"[{"entity":"","id":"a","version":50,"fields":{}}]"#,
            #"[{"entity":"card","version":50,"fields":{}}]"#,
            #"[{"entity":"card","id":"a b","version":50,"fields":{}}]"#,
            #"[{"entity":"card","id":"","version":50,"fields":{}}]"#, #"[{"entity":"card","id":"a","fields":{}}]"#,
            #"[{"entity":"card","id":"a","version":"50","fields":{}}]"#,
            #"[{"entity":"card","id":"a","version":50.5,"fields":{}}]"#, #"[{"entity":"card","id":"a","version":50}]"#,
            #"[{"entity":"card","id":"a","version":50,"fields":[]}]"#,
            #"[{"entity":"card","id":"a","version":50,"fields":{"a":1,"a":2}}]"#,
            #"[{"entity":"card","id":"a","version":50,"deleted":true,"gone":true}]"#,
            #"[{"entity":"card","id":"a","version":50,"deleted":1,"fields":{}}]"#,
            #"[{"entity":"card","id":"a","version":41,"fields":{}}]"#,
            #"[{"entity":"card","id":"a","version":58,"fields":{}}]"#,
            #"[{"entity":"card","id":"a","version":50,"fields":{"n":18446744073709551616}}]"#,
        ])
    func page(_ page: String) async {
        let body = Sample.answer(["count": "1", "changedRecords": page])
        #expect(await failure { try await exchange(body) }?.kind == .network)
    }

    @Test("I5 records out of order, with one version, or twice are no answer")
    func order() async {
        for (first, second) in [("a", 51, "b", 50), ("a", 50, "b", 50), ("a", 50, "a", 51)].map({
            (Sample.record($0.0, $0.1), Sample.record($0.2, $0.3))
        }) {
            let body = Sample.answer(["count": "2", "changedRecords": "[\(first),\(second)]"])
            #expect(await failure { try await exchange(body) }?.kind == .network)
        }
        let good = "[\(Sample.record("a", 50)),\(Sample.record("b", 51))]"
        #expect(await (try? exchange(Sample.answer(["count": "2", "changedRecords": good])))?.page.count == 2)
    }

    @Test(
        "I14 a verdict that is not of the contract's shape makes the whole answer no answer",
        arguments: [
            #"{"verdict":"applied"}"#, #"{"changeID":"key-1"}"#, #"{"changeID":"key-1","verdict":"perhaps"}"#,
            #"{"changeID":"key-1","verdict":"applied","version":0}"#,
            #"{"changeID":"key-1","verdict":"applied","version":"5"}"#,
            #"{"changeID":"key-1","verdict":"applied","version":5,"serverID":"a b"}"#,
            #"{"changeID":"key-1","verdict":"merged"}"#, #"{"changeID":"key-1","verdict":"conflict","record":{}}"#,
            #"{"changeID":"key-1","verdict":"merged","record":{"entity":"card","id":"id-2","version":5,"fields":{}}}"#,
            #"{"changeID":"key-1","verdict":"rejected","serverID":"a b","error":{"code":"expired"}}"#,
            #"{"changeID":"key-1","verdict":"conflict","serverID":"a b","record":{"entity":"card","id":"id-1","version":5,"fields":{}}}"#,
            #"{"changeID":"key-1","verdict":"rejected"}"#, #"{"changeID":"key-1","verdict":"rejected","error":{}}"#,
            #"{"changeID":"key-1","verdict":"blocked"}"#, #"{"changeID":"key-1","verdict":"blocked","by":"key-1"}"#,
            #"{"changeID":"key-1","verdict":"blocked","by":"foreign"}"#,
            #"{"changeID":"key-1","verdict":"duplicate"}"#,
            #"{"changeID":"key-1","verdict":"duplicate","first":"retry"}"#,
            #"{"changeID":"key-1","verdict":"duplicate","first":"conflict"}"#, "1", "null",
            #"{"changeID":"key-1","verdict":"applied","version":5},{"changeID":"key-1","verdict":"applied","version":6}"#,
            #"{"changeID":"key-1","verdict":"applied"},{"changeID":"key-1","verdict":"retry"}"#,
        ])
    func verdicts(_ result: String) async {
        let body = Sample.answer(["results": "[\(result)]"])
        #expect(await failure { try await exchange(body, Sample.request(changes)) }?.kind == .network)
    }

    @Test("every verdict comes out, in the request's order; the same one twice is one; a missing one is missing")
    func allVerdicts() async throws {
        let record = #""record":{"entity":"card","id":"id-3","version":50,"fields":{"name":"C"}}"#
        let results = """
            [{"verdict":"conflict",\(record),"changeID":"key-3"},
             {"changeID":"key-5","verdict":"blocked","by":"key-3"},
             {"changeID":"key-4","verdict":"retry","retryAfter":1.5}, {"changeID":"key-6","verdict":"retry"},
             {"changeID":"key-2","verdict":"duplicate","first":"applied","version":9},
             {"changeID":"key-2","verdict":"duplicate","first":"applied","version":9},
             {"changeID":"key-7","verdict":"merged","record":{"version":51,"deleted":true,"fields":{}}},
             {"changeID":"key-8","verdict":"applied","overwrote":null,"version":null,"serverID":"s-1"},
             {"changeID":"key-9","verdict":"merged","serverID":"s-2",
              "record":{"entity":"card","id":"s-2","version":52,"deleted":true,"fields":{}}},
             {"changeID":"key-10","verdict":"rejected","serverID":"s-3","error":{"code":"expired","message":"over"}}]
            """
        let all = (1...10).map { Sample.change($0) }
        let answer = try await exchange(Sample.answer(["results": results]), Sample.request(all))
        let c = ServerRecord(key: RecordKey("card", "id-3"), version: 50, fields: ["name": "C"])
        let dead = ServerRecord(key: RecordKey("card", "id-7"), version: 51, presence: .deleted)
        let named = ServerRecord(key: RecordKey("card", "id-9"), version: 52, presence: .deleted)
        #expect(
            answer.results == [
                ChangeResult(
                    changeID: "key-2", verdict: .applied(version: 9, overwrote: [:], serverID: nil), isDuplicate: true),
                ChangeResult(changeID: "key-3", verdict: .conflict(record: c)),
                ChangeResult(changeID: "key-4", verdict: .retry(afterSeconds: 1.5)),
                ChangeResult(changeID: "key-5", verdict: .blocked(by: "key-3")),
                ChangeResult(changeID: "key-6", verdict: .retry(afterSeconds: nil)),
                ChangeResult(changeID: "key-7", verdict: .merged(record: dead)),
                ChangeResult(changeID: "key-8", verdict: .applied(version: nil, overwrote: [:], serverID: "s-1")),
                ChangeResult(changeID: "key-9", verdict: .merged(record: named), serverID: "s-2"),
                ChangeResult(
                    changeID: "key-10", verdict: .rejected(Rejection(code: .expired, message: "over")), serverID: "s-3"),
            ])
    }

    @Test(
        "IDS-01 what else a request does with what it creates may be told under the id that the answer gives that, wherever it says so",
        arguments: [false, true])
    func namedInTheSameAnswer(isNamedLast: Bool) async throws {
        var changes = (1...3).map { Sample.change($0) }
        for place in 1...2 { changes[place].record = changes[0].record }
        let record = #""record":{"entity":"card","id":"s-1","version":50,"fields":{"name":"C"}}"#
        var results = [
            #"{"changeID":"key-1","verdict":"applied","version":9,"serverID":"s-1"}"#,
            #"{"changeID":"key-2","verdict":"duplicate","first":"merged",\#(record)}"#,
            #"{"changeID":"key-3","verdict":"conflict",\#(record)}"#,
        ]
        if isNamedLast { results.reverse() }
        let body = Sample.answer(["results": "[\(results.joined(separator: ","))]"])
        let answer = try await exchange(body, Sample.request(changes))
        let c = ServerRecord(key: changes[0].record, version: 50, fields: ["name": "C"])
        #expect(
            answer.results == [
                ChangeResult(changeID: "key-1", verdict: .applied(version: 9, overwrote: [:], serverID: "s-1")),
                ChangeResult(changeID: "key-2", verdict: .merged(record: c), isDuplicate: true),
                ChangeResult(changeID: "key-3", verdict: .conflict(record: c)),
            ])
        // Another record's id proves nothing about this one.
        changes[2].record = RecordKey("card", "id-3")
        #expect(await failure { try await exchange(body, Sample.request(changes)) }?.kind == .network)
    }

    @Test("NET-22 another data set in an answer stops everything")
    func otherDataset() async {
        let failure = await failure { try await exchange(Sample.answer(["dataset": "\"d-2\""])) }
        #expect(failure?.kind == .history)
        #expect(failure?.code == "otherDataset")
    }

    @Test("the first sync takes any epoch and data set; the optional members may be absent or null")
    func firstSync() async throws {
        var request = Sample.request(since: 0, epoch: nil)
        request.dataset = nil
        let absent = ["dataset", "serverTime", "stamp", "oldestVersion", "checksum"]
        for value in ["", "null"] {
            let members = Dictionary(uniqueKeysWithValues: absent.map { ($0, value) })
            let answer = try await exchange(Sample.answer(members), request)
            #expect(answer.dataset == nil && answer.stamp == nil && answer.serverTimeMilliseconds == nil)
        }
        #expect(try await exchange(Sample.answer(["serverTime": "\"noon\""]), request).serverTimeMilliseconds == nil)
    }

    @Test("DL-21 a scope that lags behind the others may be paged, and no record may be below it")
    func scopes() async throws {
        var request = Sample.request()
        request.scopes = ["board:a": 41, "board:b": 5]
        let page = ["count": "1", "changedRecords": "[\(Sample.record("a", 20))]"]
        let paging = Sample.answer(page.merging(["hasMore": "true", "currentSyncVersion": "20"]) { $1 })
        #expect(try await exchange(paging, request).page.count == 1)
        let ended = Sample.answer(page.merging(["currentSyncVersion": "20"]) { $1 })
        #expect(await failure { try await exchange(ended, request) } != nil)
        let stuck = Sample.answer(["hasMore": "true", "currentSyncVersion": "5"])
        #expect(await failure { try await exchange(stuck, request) } != nil)
    }

    @Test("NET-11, NET-12 another content type, an empty body, or a foreign page is no answer, and nothing leaks of it")
    func foreign() async throws {
        let page = "<html>Log in at http://portal.example.com/?session=abcdef0123456789abcdef0123456789 please</html>"
        for answer in [
            HTTPAnswer.of(200, Sample.answer(), type: "text/plain"), .of(200, Sample.answer(), type: "text/html"),
            .of(200, Sample.answer(), type: nil), .of(200, ""), .of(200, page), .of(200, page, type: "text/html"),
            .of(201, Sample.answer()), .of(204, ""), .of(202, Sample.answer()), .of(206, Sample.answer()),
            .of(302, "", type: "text/html", [("Location", "https://portal.example.com")]),
        ] {
            let exchange = try Sample.exchange(ScriptedHTTP([answer]))
            let failure = await failure { try await exchange.exchange(Sample.request()) }
            #expect(failure?.kind == .network)
            #expect(failure?.reachedServer == false)
            #expect(failure?.message.contains("abcdef0123456789") == false)
        }
    }

    @Test("the page is decoded in slices of records and of bytes, each record once")
    func slices() async throws {
        let records = (0..<50).map { Sample.record("id\($0)", 100 + $0) }.joined(separator: ",")
        let body = Sample.answer(["count": "50", "currentSyncVersion": "200", "changedRecords": "[\(records)]"])
        for (maxRecords, maxBytes) in [(1, 1 << 20), (7, 1 << 20), (500, 1), (500, 300), (0, 0), (500, 1 << 20)] {
            let page = try await exchange(body).page
            var versions: [Int64] = []
            while case let slice = try page.next(maxRecords: maxRecords, maxBytes: maxBytes), !slice.isEmpty {
                #expect(slice.count <= max(maxRecords, 1))
                versions += slice.map(\.version)
            }
            #expect(versions == (100..<150).map(Int64.init))
        }
    }

    @Test("NET-07 an answer cut at any byte is no answer")
    func cut() async {
        let whole = Array(Sample.answer(["count": "1", "changedRecords": "[\(Sample.record("a", 50))]"]).utf8)
        for length in 0..<whole.count {
            let body = String(decoding: whole[..<length], as: UTF8.self)
            #expect(await failure { try await exchange(body) }?.kind == .network, "cut at \(length)")
        }
    }
}
