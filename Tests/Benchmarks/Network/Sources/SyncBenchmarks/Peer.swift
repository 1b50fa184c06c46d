import Foundation

/// The strongest peer on the same work: a program of the user's, run as `PROGRAM COUNT 1 --json`, that prints one JSON
/// object with seconds under `up`, `down`, `edit_up`, `edit_down` and `idle_after`.
enum Peer {
    static func measure(_ program: String, _ count: Int) throws -> [String: Double] {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = ["\(count)", "1", "--json"]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard let object = try JSONSerialization.jsonObject(with: data) as? [String: Any] else {
            throw Program.Fault(description: "the peer printed no JSON object")
        }
        return object.compactMapValues { $0 as? Double }
    }
}
