import SyncCore
import Testing

@testable import Transport

/// PROTOCOL.md, section 4, for a whole request: every status has its row.
struct StatusTableTests {
    private static func kind(_ status: Int) -> FailureClass {
        switch status {
        case 401: .authentication
        case 413: .tooLarge
        case 408, 409, 425, 429, 499, 502, 503, 504, 520...526, 530: .temporary
        // Without the contract's code a 410 proves nothing.
        case 410, 511: .network
        case 400...499: .unknown
        case 500...599: .temporaryLonger
        default: .network
        }
    }

    @Test("NET-19 every status from 100 to 599, without a problem's code", arguments: 100...599)
    func foreign(_ status: Int) async throws {
        let http = ScriptedHTTP([.of(status, "<html>no</html>", type: "text/html")])
        let exchange = try Sample.exchange(http)
        let failure = await failure { try await exchange.exchange(Sample.request()) }
        #expect(failure?.kind == Self.kind(status))
        #expect(failure?.status == status)
        #expect(http.requests.count == 1)
    }

    @Test(
        "the contract's problems say what they are",
        arguments: [
            (400, "malformed", FailureClass.unknown), (401, "unauthorized", .authentication),
            (403, "forbidden", .unknown), (404, "notFound", .unknown), (405, "methodNotAllowed", .unknown),
            (408, "timeout", .temporary), (409, "otherDataset", .history), (409, "keyInUse", .temporary),
            (410, "epochChanged", .history), (410, "checkpointExpired", .history), (413, "tooLarge", .tooLarge),
            (415, "unsupportedMediaType", .unknown), (422, "invalid", .unknown), (429, "rateLimited", .temporary),
            (503, "unavailable", .temporary), (500, "internal", .temporaryLonger),
        ])
    func problems(_ status: Int, _ code: String, _ kind: FailureClass) async throws {
        let exchange = try Sample.exchange(
            ScriptedHTTP([.problem(status, code, [("Retry-After", "5"), ("Backoff", "9")])]))
        let failure = await failure { try await exchange.exchange(Sample.request()) }
        #expect(failure?.kind == kind)
        #expect(failure?.code == code)
        #expect(failure?.retryAfterSeconds == 5)
        #expect(failure?.backoffSeconds == 9)
        #expect(failure?.reachedServer == true)
    }

    @Test("a new epoch is told with the 410")
    func epoch() async throws {
        let body = #"{"code":"epochChanged","epoch":"e-2"}"#
        let exchange = try Sample.exchange(ScriptedHTTP([.of(410, body, type: "application/problem+json")]))
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.epoch == "e-2")
    }

    @Test("NET-14 a proxy's 410 or 409 without the contract's code has no effect on history")
    func proxies() async throws {
        for body in [#"{"code":"epochChanged"}"#, "gone", ""] {
            let exchange = try Sample.exchange(ScriptedHTTP([.of(410, body, type: "application/json")]))
            #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .network)
        }
        let broken = HTTPAnswer.of(410, #"{"code":"epochChanged""#, type: "application/problem+json")
        let exchange = try Sample.exchange(ScriptedHTTP([broken]))
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .network)
    }

    @Test("an app can change a row")
    func changed() async throws {
        var options = Sample.patient
        options.failures.set(.temporary, status: 418, on: .exchange)
        let exchange = try Sample.exchange(ScriptedHTTP([.of(418)]), options: options)
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .temporary)
    }

    @Test("Backoff counts on a good answer too")
    func goodBackoff() async throws {
        let exchange = try Sample.exchange(ScriptedHTTP([.of(200, Sample.answer(), [("Backoff", "30")])]))
        #expect(try await exchange.exchange(Sample.request()).backoffSeconds == 30)
    }
}

extension HTTPAnswer {
    fileprivate static func of(_ status: Int, _ text: String, _ fields: [(String, String)]) -> HTTPAnswer {
        of(status, text, type: "application/json", fields)
    }
}
