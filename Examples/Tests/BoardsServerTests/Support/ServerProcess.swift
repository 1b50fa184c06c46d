import Foundation

/// `boards serve` in a process of its own, which a test may kill.
final class ServerProcess: @unchecked Sendable {  // set once in init, and Process guards itself
    let port: Int
    private let process: Process
    private let output: FileHandle

    /// Starts it and waits for its line.
    init(_ arguments: [String]) throws {
        process = Process()
        process.executableURL = Self.program
        process.arguments = ["serve", "--port", "0", "--log", "critical"] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        output = pipe.fileHandleForReading
        var line: [UInt8] = []
        while line.last != UInt8(ascii: "\n"), let byte = try output.read(upToCount: 1)?.first { line.append(byte) }
        let text = String(decoding: line, as: UTF8.self)
        guard let port = text.split(separator: ":").last.flatMap({ Int($0.dropLast()) }),
            text == "listening on http://127.0.0.1:\(port)\n"
        else {
            process.terminate()
            throw Unready(line: text)
        }
        self.port = port
    }

    convenience init(_ arguments: String...) throws { try self.init(arguments) }

    deinit { if process.isRunning { kill() } }

    /// What came instead of the line.
    struct Unready: Error { let line: String }

    private static let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appending(path: "boards")

    var client: TestClient { TestClient(port: port) }

    /// As a power switch for the process.
    func kill() {
        signal(SIGKILL)
        process.waitUntilExit()
    }

    func signal(_ signal: CInt) { Foundation.kill(process.processIdentifier, signal) }

    /// Asks it to end; its status, and what else it had printed.
    func stop(_ number: CInt = SIGTERM) throws -> (status: Int32, rest: String) {
        signal(number)
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self))
    }

    /// Bytes that it has resident; nil where the system does not tell.
    var memory: Int? {
        guard let bytes = FileManager.default.contents(atPath: "/proc/\(process.processIdentifier)/statm") else {
            return nil
        }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return words.count > 1 ? Int(words[1]).map { $0 * Int(sysconf(CInt(_SC_PAGESIZE))) } : nil
    }

    /// Runs the program to its end: status, stdout and stderr.
    static func run(_ arguments: [String]) throws -> (status: Int32, output: String, errors: String) {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        let output = Pipe()
        let errors = Pipe()
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let texts = try [output, errors].map {
            String(decoding: try $0.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        }
        process.waitUntilExit()
        return (process.terminationStatus, texts[0], texts[1])
    }
}

/// Tests of the real program take a few rounds; with `FERRY_LONG=1` in the environment as many as the promise names.
enum Rounds {
    static func count(_ short: Int, long: Int) -> Int {
        ProcessInfo.processInfo.environment["FERRY_LONG"] == nil ? short : long
    }
}
