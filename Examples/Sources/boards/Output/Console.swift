import Foundation

/// What the program says: results on stdout, complaints on stderr, each written at once.
enum Console {
    /// Writes a line to stdout.
    static func print(_ line: String) { write(line + "\n") }

    /// Writes a text to stdout as it is.
    static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }

    /// Writes a line to stderr.
    static func complain(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }
}
