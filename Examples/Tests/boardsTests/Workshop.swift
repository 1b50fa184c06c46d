import Foundation
import SyncCore
import Testing

/// What a finished command left: its exit status and what it said.
struct Finished: Sendable {
    let status: Int32
    let output: String
    let complaint: String
    /// From its start to its end, whatever else the tests do meanwhile.
    let took: Duration

    var lines: [String] { output.split(separator: "\n").map(String.init) }
    /// The output as one JSON value.
    var json: FieldValue {
        get throws { try FieldValue(json: output, maximumDepth: 512) }
    }
}

/// The program `boards` itself, as built beside these tests, run from outside in a temporary folder.
final class Workshop: Sendable {
    let folder: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "boards-tests-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch {
            Issue.record("\(folder) could not be removed: \(error)")
        }
    }

    static var program: URL {
        URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "boards")
    }

    /// Runs a command line to its end.
    func boards(_ arguments: [String]) async throws -> Finished {
        let name = UUID().uuidString
        let (output, complaint) = (file("\(name).out"), file("\(name).err"))
        let process = try process(arguments, output: output, complaint: complaint)
        let (status, took) = try await finish(process)
        return Finished(status: status, output: try read(output), complaint: try read(complaint), took: took)
    }

    /// The same on a device with a folder of its own.
    func on(_ device: String, _ arguments: String...) async throws -> Finished {
        try await boards(["--data", file(device)] + arguments)
    }

    /// Runs a command that must end well; its output without the last line's end.
    @discardableResult
    func ok(_ device: String, _ arguments: String..., at line: SourceLocation = #_sourceLocation) async throws -> String
    {
        let finished = try await boards(["--data", file(device)] + arguments)
        #expect(finished.status == 0, "\(arguments): \(finished.complaint)", sourceLocation: line)
        return finished.output.hasSuffix("\n") ? String(finished.output.dropLast()) : finished.output
    }

    func file(_ name: String) -> String { "\(folder)/\(name)" }

    @discardableResult
    func write(_ text: String, to name: String) throws -> String {
        try Data(text.utf8).write(to: URL(filePath: file(name)))
        return file(name)
    }

    /// Starts a command and leaves it running.
    func process(_ arguments: [String], output: String, complaint: String) throws -> Process {
        for path in [output, complaint] { _ = FileManager.default.createFile(atPath: path, contents: nil) }
        let process = Process()
        process.executableURL = Self.program
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle(forWritingAtPath: output)
        process.standardError = FileHandle(forWritingAtPath: complaint)
        process.environment = ["HOME": folder, "PATH": "/usr/bin:/bin"]
        return process
    }

    private func finish(_ process: Process) async throws -> (status: Int32, took: Duration) {
        let (stream, continuation) = AsyncStream.makeStream(of: (Int32, Duration).self)
        let began = ContinuousClock.now
        process.terminationHandler = { ended in
            let status = ended.terminationReason == .exit ? ended.terminationStatus : -ended.terminationStatus
            continuation.yield((status, began.duration(to: .now)))
            continuation.finish()
        }
        try process.run()
        for await (status, took) in stream { return (status, took) }
        return (-1, .zero)
    }

    private func read(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
    }
}

extension FieldValue {
    subscript(name: String) -> FieldValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }
    var string: String? {
        if case .string(let text) = self { text } else { nil }
    }
    subscript(index: Int) -> FieldValue? {
        if case .array(let elements) = self, elements.indices.contains(index) { elements[index] } else { nil }
    }
    var count: Int {
        if case .array(let elements) = self { elements.count } else { 0 }
    }
}
