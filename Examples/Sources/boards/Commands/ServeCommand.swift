import ArgumentParser
import BoardsServer

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Run the reference server.", discussion: ServeArguments.discussion)

    @OptionGroup var global: GlobalOptions
    @OptionGroup var server: ServeArguments

    func run() async throws {
        let options = server.options
        do {
            try await ReferenceServer.run(options) { port in
                Console.print("listening on \(Self.address(host: options.host, port: port))")
            }
        } catch {
            throw Problem(error.description)
        }
    }

    /// Where the server is; an address of IPv6 stands in brackets, or it would be no URL.
    static func address(host: String, port: Int) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}
