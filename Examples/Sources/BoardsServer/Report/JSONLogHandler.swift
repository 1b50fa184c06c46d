internal import Logging

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif
#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif
internal import SyncCore

/// Writes each log entry as one line of JSON to stderr, by one system call, so that lines never mix.
struct JSONLogHandler: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    /// Takes a finished line; stderr outside of tests.
    let write: @Sendable ([UInt8]) -> Void

    init(level: Logger.Level, write: @escaping @Sendable ([UInt8]) -> Void = JSONLogHandler.standardError) {
        logLevel = level
        self.write = write
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        writer.key("time")
        writer.string(Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
        writer.key("level")
        writer.string(event.level.rawValue)
        writer.key("message")
        writer.string("\(event.message)")
        let all = metadata.merging(event.metadata ?? [:]) { $1 }
        for (key, value) in all.sorted(by: { $0.key < $1.key }) {
            writer.key(key)
            writer.string("\(value)")
        }
        writer.endObject()
        write(writer.bytes + [UInt8(ascii: "\n")])
    }

    @Sendable static func standardError(_ line: [UInt8]) {
        // Whoever reads the log may have gone; there is nobody left to tell.
        _ = line.withUnsafeBytes { systemWrite(2, $0.baseAddress, $0.count) }
    }
}

/// `write(2)`, under a name that no member hides.
func systemWrite(_ descriptor: CInt, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    write(descriptor, bytes, count)
}
