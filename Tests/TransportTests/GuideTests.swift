import HTTPTypes
import SyncCore
import SyncTesting
import Testing
import Transport

// The code of Docs/Transport.md.

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

struct GuideTests {
    @Test("the guide's client and authentication stand behind an exchange")
    func parts() async throws {
        let exchange = try BatchExchange(
            endpoint: "https://api.example.com", http: MyHTTP(), authentication: KeyAuthentication())
        let failure = await failure {
            try await exchange.exchange(ExchangeRequest(cycleID: "c", deviceID: "d"))
        }
        #expect(failure?.kind == .temporary)
        #expect(failure?.retryAfterSeconds == 5)
    }

    @Test("the guide's hostile server starts and stops")
    func hostile() throws {
        let server = try HostileServer([.silent, .portal, .redirect(307, to: "/moved"), .answer(#"{"ok":true}"#)])
        defer { server.stop() }
        #expect(server.url.hasPrefix("http://127.0.0.1:"))
    }
}

extension GuideTests {
    /// A store of the guide's own.
    private struct Names: IDTranslation {
        let schema: Schema
        func serverIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] { [:] }
        func localIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] { [:] }
    }

    @Test("the guide's exchange with a server that makes its own ids")
    func identities() async throws {
        let store = Names(schema: try Schema([EntitySchema("card", fields: [.text("name")])]))
        let batch = try BatchExchange(endpoint: "https://api.example.com", http: MyHTTP())
        let exchange = IDTranslatingExchange(batch, schema: store.schema, translation: store)
        let failure = await failure { try await exchange.exchange(ExchangeRequest(cycleID: "c", deviceID: "d")) }
        #expect(failure?.kind == .temporary)
    }
}

#if AsyncHTTPClient && !canImport(Darwin)
    extension GuideTests {
        /// Compiled only: it would need that server.
        func exchange() async throws {
            let exchange = try BatchExchange(
                endpoint: "https://api.example.com", http: AsyncHTTPClientTransport(),
                credentials: FixedCredentials(Token(value: "secret", account: "ann")), account: "ann")
            let answer = try await exchange.exchange(
                ExchangeRequest(cycleID: UUIDv7Source().makeID(), deviceID: "device"))
            print(answer.currentSyncVersion, answer.page.count)
            await exchange.close()
        }

        /// Compiled only.
        func sender() throws -> RESTSender {
            let sender = try RESTSender(
                endpoint: "https://api.example.com",
                mappings: [
                    "card": RESTMapping(collection: "cards"),
                    "checkItem": RESTMapping(
                        collection: "checkItems", parent: .init(collection: "checklists", field: "idChecklist")),
                ],
                http: AsyncHTTPClientTransport())
            return sender
        }
    }
#endif
