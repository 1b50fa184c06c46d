import BoardsServer

/// A server inside this process, for as long as somebody needs it.
enum LocalServer {
    /// Runs the body with the port of a server that is ready, and stops the server behind it.
    static func run(database: String, _ body: @escaping @Sendable (_ port: Int) async throws -> Void) async throws {
        var options = ServerOptions()
        options.port = 0
        options.database = database
        options.logLevel = "critical"
        do {
            try await ReferenceServer.during(options, body)
        } catch let failure as ServeFailure {
            throw Problem(failure.description)
        }
    }
}
