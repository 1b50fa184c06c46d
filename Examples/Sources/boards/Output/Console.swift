import Foundation

/// What the program says: results on stdout, complaints on stderr, each written at once.
enum Console {
    /// Stands before each line of stdout; the demonstration sets its commands' output off with it.
    @TaskLocal static var indentation = ""

    /// Writes a line to stdout.
    static func print(_ line: String) { write(line + "\n") }

    /// Writes a text to stdout; ends the program with status 1 where nobody can take it, on a full disk for one.
    /// - Parameter isBeginning: it begins a line, and does not go on with one.
    static func write(_ text: String, isBeginning: Bool = true) {
        guard !text.isEmpty else { return }
        do {
            let skipped = isBeginning ? 0 : indentation.count
            let text = indentation.isEmpty ? text : String(indented(text).dropFirst(skipped))
            try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
        } catch {
            complain("The results could not be written; what was to be done is done.")
            Program.exit(1)
        }
    }

    /// Writes a line to stderr.
    static func complain(_ line: String) {
        do {
            try FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
        } catch {
            // There is nowhere left to say it; the exit status still does.
            return
        }
    }

    private static func indented(_ text: String) -> String {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { indentation + $0 }
        if text.hasSuffix("\n") { lines[lines.count - 1] = "" }
        return lines.joined(separator: "\n")
    }
}
