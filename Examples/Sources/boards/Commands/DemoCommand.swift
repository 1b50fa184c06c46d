import ArgumentParser
import Foundation
import UnixSignals

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
        // Interrupted, it leaves nothing behind either.
        let interrupts = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await LocalServer.run(database: folder.appending(path: "server.sqlite").path()) { port in
                    try await Demo(folder: folder.path(), port: port).tell()
                }
                return true
            }
            group.addTask {
                for await _ in interrupts { break }
                return false
            }
            let isTold = try await group.next() ?? false
            group.cancelAll()
            guard isTold else { throw Problem("Interrupted before its end.") }
        }
    }
}
