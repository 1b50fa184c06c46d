import ArgumentParser
import Foundation

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Show it all: a server and two devices, offline and in sync, in under a minute.",
        discussion: "Works in a temporary folder, and leaves nothing behind.")

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "boards-\(UUID().uuidString.lowercased())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(at: folder) } catch {
                Console.complain("The folder \(folder.path()) could not be removed: \(error.localizedDescription)")
            }
        }
        try await LocalServer.run(database: folder.appending(path: "server.sqlite").path()) { port in
            try await Demo(folder: folder.path(), port: port).tell()
        }
    }
}
