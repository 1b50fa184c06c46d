import Foundation

/// What the program says: results on stdout, complaints on stderr, each written at once.
enum Console {
    /// Stands before each line of stdout; the demonstration sets its commands' output off with it.
    @TaskLocal static var indentation = ""

    /// Writes a line to stdout.
    static func print(_ line: String) { write(line + "\n") }

    /// Writes a text to stdout.
    static func write(_ text: String) {
        guard !text.isEmpty else { return }
        FileHandle.standardOutput.write(Data((indentation.isEmpty ? text : indented(text)).utf8))
    }

    /// Writes a line to stderr.
    static func complain(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }

    private static func indented(_ text: String) -> String {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { indentation + $0 }
        if text.hasSuffix("\n") { lines[lines.count - 1] = "" }
        return lines.joined(separator: "\n")
    }
}
