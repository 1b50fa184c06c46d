import ArgumentParser
import BoardsServer

@main
struct Boards: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "boards", abstract: "A Kanban board that works offline and syncs.")

    func run() async throws {
        throw CleanExit.helpRequest(self)
    }
}
