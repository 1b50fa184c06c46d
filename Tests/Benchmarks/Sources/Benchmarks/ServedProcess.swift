import Foundation

/// A server program in a process of its own, and what the system says of it.
final class ServedProcess {
    private let process = Process()
    let port: UInt16

    /// Starts it and waits for the line in which it names its port.
    init(_ program: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = line.split(whereSeparator: { $0 == ":" || $0 == "\n" }).last.flatMap({ UInt16($0) }) else {
            process.terminate()
            throw LoadClient.Fault(description: "\(program) said “\(line)”")
        }
        self.port = port
    }

    func stop() {
        process.terminate()
        process.waitUntilExit()
    }

    /// Seconds of a core that it has used, from `/proc`.
    var cpuSeconds: Double {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8)
            // After the name, which stands in brackets: the 12th and 13th are user and system ticks.
            let words = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
            guard words.count > 13, let user = Double(words[12]), let system = Double(words[13]) else {
                throw LoadClient.Fault(description: "/proc says “\(text)”")
            }
            return (user + system) / Double(sysconf(CInt(_SC_CLK_TCK)))
        }
    }

    /// Bytes that it has resident.
    var memory: Double {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(process.processIdentifier)/statm", encoding: .utf8)
            let words = text.split(separator: " ")
            guard words.count > 1, let pages = Double(words[1]) else {
                throw LoadClient.Fault(description: "/proc says “\(text)”")
            }
            return pages * Double(sysconf(CInt(_SC_PAGESIZE)))
        }
    }
}
