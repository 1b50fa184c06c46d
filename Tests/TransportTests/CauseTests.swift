import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// What people read when nothing came of a request: one sentence, and in it what was expected and what came.
struct CauseTests {
    @Test(
        "a failure of the client says what happened and what happens next",
        arguments: [
            (.noConnection, "The server could not be reached; it is tried again (why)."),
            (.timedOut, "The server took too long to answer; it is asked again (why)."),
            (.secureConnection, "The server could not prove who it is, so nothing was sent; it is tried again (why)."),
            (
                .interrupted,
                "The connection broke before the whole answer was here; the same is sent again, and counts once (why)."
            ),
            (.authentication, "Nothing can be sent before you sign in; what is not sent yet stays here (why)."),
        ] as [(HTTPFailure.Kind, String)])
    func clientFailures(_ kind: HTTPFailure.Kind, _ message: String) async throws {
        let exchange = try Sample.exchange(
            ScriptedHTTP { _, _ throws(HTTPFailure) in throw HTTPFailure(kind, "why") })
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.message == message)
    }

    @Test(
        "an answer that is no success says what came",
        arguments: [
            (503, "The server cannot do it now; it is tried again (expected a success; 503 came: unavailable (No))."),
            (
                500,
                "The server failed inside; it is tried again after a while (expected a success; 500 came: unavailable (No))."
            ),
            (
                401,
                "The server wants you to sign in again; what is not sent yet stays here "
                    + "(expected a success; 401 came: unavailable (No))."
            ),
        ])
    func statuses(_ status: Int, _ message: String) async throws {
        let exchange = try Sample.exchange(ScriptedHTTP([.problem(status, "unavailable")]))
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.message == message)
    }

    @Test("NET-12 what is no answer says what was expected and how it began, without its contents")
    func foreign() async throws {
        let exchange = try Sample.exchange(ScriptedHTTP([.of(200, "<html>Pay here</html>", type: "text/html")]))
        #expect(
            await failure { try await exchange.exchange(Sample.request()) }?.message
                == "What came is no answer of the server, so nothing of it was taken; it is tried again "
                + "(expected 200 with application/json; came: 200 with text/html, <html>Pay here</html>).")
        let other = try Sample.exchange(ScriptedHTTP([.of(200, Sample.answer(["cycleID": "\"secret\""]))]))
        let message = await failure { try await other.exchange(Sample.request()) }?.message ?? ""
        #expect(message.contains("expected the request's cycleID; came: another"))
        #expect(!message.contains("secret"))
    }
}
