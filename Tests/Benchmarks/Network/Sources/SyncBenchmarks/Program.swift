import Foundation

/// A program in a process of its own that takes a JSON command a line and answers with a JSON line.
final class Program {
    struct Fault: Error, CustomStringConvertible { var description: String }

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var rest = Data()

    init(_ path: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    /// The next line that it prints.
    func line() throws -> Data {
        while true {
            if let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let line = rest[..<end]
                rest = Data(rest[rest.index(after: end)...])
                return Data(line)
            }
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { throw Fault(description: "\(process.executableURL?.path ?? "") ended early") }
            rest += more
        }
    }

    func ask(_ command: String) throws -> Measured {
        input.fileHandleForWriting.write(Data("\(command)\n".utf8))
        return try JSONDecoder().decode(Measured.self, from: line())
    }

    /// Ends it: by the end of its input where it reads commands, else by a signal.
    func stop(bySignal: Bool = false) throws {
        try input.fileHandleForWriting.close()
        if bySignal { process.terminate() }
        process.waitUntilExit()
    }

    /// Seconds of a core that it has used, from `/proc`; 0 where there is none.
    var processorSeconds: Double {
        guard let text = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        else { return 0 }
        let words = text[end...].split(separator: " ")
        return words.count > 13 ? ((Double(words[12]) ?? 0) + (Double(words[13]) ?? 0)) / 100 : 0
    }

    /// The most memory that it ever held, in MB; 0 where nobody tells.
    var peak: Double {
        guard let text = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM") })
        else { return 0 }
        return (line.split(separator: " ").compactMap { Double($0) }.first ?? 0) * 1_024 / 1e6
    }
}

/// What a device's process says of one command.
struct Measured: Decodable {
    var s = 0.0
    var cpu = 0.0
    var peak = 0.0
    var requests = 0
    var bytes = 0
    var records = 0
    var edited = 0
    var inStep = true
}
