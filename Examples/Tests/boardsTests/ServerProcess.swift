import Foundation
import Testing

/// `boards serve` as a process of its own, on a port that the system chose.
final class ServerProcess: @unchecked Sendable {  // set once in init, and Process guards itself
    let url: String
    private let process: Process
    private let errors: String

    /// Starts a server on this database and waits until it says that it listens.
    init(_ shop: Workshop, database: String = "server.sqlite", _ arguments: String...) async throws {
        let output = shop.file("serve-\(UUID().uuidString).out")
        errors = output + ".err"
        process = try shop.process(
            ["serve", "--port", "0", "--database", shop.file(database), "--log", "error"] + arguments, output: output,
            complaint: errors)
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        // Blocks until the line is there, or the server has ended.
        let line = String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self)
        guard line.hasPrefix("listening on http://"), line.hasSuffix("\n") else {
            let said = try String(contentsOfFile: errors, encoding: .utf8)
            throw Complaint(text: "the server said “\(line)” and “\(said)”")
        }
        url = String(line.dropFirst("listening on ".count).dropLast())
    }

    /// Stops it as an operator does.
    /// - Returns: its exit status.
    @discardableResult
    func stop() -> Int32 {
        process.terminate()
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// Ends it without a word.
    func kill() {
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    struct Complaint: Error { let text: String }
}
