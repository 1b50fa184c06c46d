import Foundation

/// `Tests/Benchmarks/run upload [--quick] [--json]`: measures, and says of each figure whether its goal was met.
@main
struct Main {
    static func main() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-benchmarks-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(at: folder) } catch { print("left behind: \(folder.path)") }
        }
        let figures = try await UploadBenchmark.run(in: folder, isQuick: CommandLine.arguments.contains("--quick"))
        if CommandLine.arguments.contains("--json") {
            print("[\(figures.map(\.json).joined(separator: ",\n "))]")
        } else {
            for figure in figures { print(figure.line) }
        }
    }
}
