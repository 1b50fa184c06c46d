import Ferry
import Foundation
import Logging
import SyncCore

/// The way to the server: the batch dialect over the platform's HTTP client.
struct Connection {
    private let exchange: BatchExchange
    private let hints: EventStream
    private let logger: Logger

    /// - Throws: a ``Problem`` with exit code 2 for an address that cannot be used.
    init(server: URL, token: String?, isVerbose: Bool = false) throws(Problem) {
        var logger = Logger(label: "boards") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = isVerbose ? .debug : .critical
        self.logger = logger
        let address = server.absoluteString
        do {
            // Before there is a client, which would have to be closed.
            _ = try Endpoint(address)
            #if canImport(Darwin)
                let http = URLSessionTransport()
            #else
                let http = AsyncHTTPClientTransport()
            #endif
            let credentials = FixedCredentials(token.map { Token(value: $0) })
            exchange = try BatchExchange(endpoint: address, http: http, credentials: credentials, logger: logger)
            hints = try EventStream(endpoint: address, http: http, credentials: credentials)
        } catch {
            switch error {
            case .malformed(let text):
                throw .usage("“\(text)” is no server's address; it looks like http://127.0.0.1:8080.")
            case .plainHTTP(let text):
                throw .usage(
                    "“\(text)” would send everything readably over the network; use https, or http to this machine only."
                )
            }
        }
    }

    /// What `sync` runs with. It is the user's wish, watching too: our own back-off and an open breaker do not stop it, the
    /// pauses between failures and those that the server asks for do.
    static let configuration = EngineConfiguration(isWatched: true)

    /// An engine that syncs this store over the connection.
    func engine(_ store: Store) -> SyncEngine {
        let translated = IDTranslatingExchange(
            exchange, schema: store.schema, translation: store, waits: .onceNamed)
        return SyncEngine(
            store: store, exchange: translated, hints: hints, configuration: Self.configuration, logger: logger)
    }

    func close() async { await exchange.close() }
}
