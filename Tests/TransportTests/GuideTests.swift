import HTTPTypes
import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// The code of the guide, compiled and run.
@Suite struct GuideTests {
    struct MyHTTP: HTTPTransport {
        func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
            var head = HTTPResponse(status: .serviceUnavailable)
            head.headerFields[.retryAfter] = "5"
            return HTTPAnswer(head: head, body: HTTPBody([]))
        }

        func close() async {}
    }

    struct KeyAuthentication: Authentication {
        func authenticate(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPRequest {
            var proved = request
            proved.headerFields[.authorization] = "Key 1234"
            return proved
        }

        func renew(after request: HTTPRequest) async throws(HTTPFailure) -> Bool { false }
    }

    @Test("an HTTP client and an authentication of one's own")
    func own() async throws {
        let exchange = try BatchExchange(
            endpoint: "https://api.example.com", http: MyHTTP(), authentication: KeyAuthentication())
        do throws(ExchangeFailure) {
            _ = try await exchange.exchange(ExchangeRequest(cycleID: "c", deviceID: "d"))
            Issue.record("503 is no answer")
        } catch {
            #expect(error.kind == .temporary)
            #expect(error.retryAfterSeconds == 5)
        }
        await exchange.close()
    }

    @Test("a server that misbehaves on command")
    func hostile() throws {
        let server = try HostileServer([.silent, .portal, .redirect(307, to: "/moved"), .answer(#"{"ok":true}"#)])
        defer { server.stop() }
        #expect(server.port > 0)
    }

    #if AsyncHTTPClient
        /// Compiled only: there is no such server.
        func batch() async throws {
            let exchange = try BatchExchange(
                endpoint: "https://api.example.com", http: AsyncHTTPClientTransport(),
                credentials: FixedCredentials(Token(value: "secret", account: "ann")), account: "ann")
            let answer = try await exchange.exchange(
                ExchangeRequest(cycleID: UUIDv7Source().makeID(), deviceID: "device"))
            print(answer.currentSyncVersion, answer.page.count)
            await exchange.close()
        }

        /// Compiled only: there is no such server.
        func rest() throws {
            let sender = try RESTSender(
                endpoint: "https://api.example.com",
                mappings: [
                    "card": RESTMapping(collection: "cards"),
                    "checkItem": RESTMapping(
                        collection: "checkItems", parent: .init(collection: "checklists", field: "idChecklist")),
                ],
                http: AsyncHTTPClientTransport())
            _ = sender
        }
    #endif
}
