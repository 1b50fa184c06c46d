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
                Console.print("listening on http://\(options.host):\(port)")
            }
        } catch {
            throw Problem(error.description)
        }
    }
}
