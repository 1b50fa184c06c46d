import Foundation

/// `Tests/Benchmarks/run upload [NAME…] [COUNT] [--json]`: measures, and says of each figure whether its goal was met.
/// Exit 2 for an unknown name.
@main
struct Main {
    static let all: [(name: String, run: @Sendable (URL, Int) async throws -> [Figure])] = [
        ("rates", { try await UploadBenchmark.rates(in: $0, $1) }),
        ("growth", { try await UploadBenchmark.growth(in: $0, $1) }),
        ("single-growth", { try await UploadBenchmark.singleGrowth(in: $0, $1) }),
    ]

    static func main() async throws {
        var words = Array(CommandLine.arguments.dropFirst())
        let asJSON = words.contains("--json")
        words.removeAll { $0 == "--json" }
        // How many changes; what says growth goes to ten times as many.
        let count = words.compactMap { Int($0) }.first { $0 >= 500 } ?? 10_000
        words.removeAll { Int($0) != nil }
        let chosen = words.isEmpty ? all : all.filter { words.contains($0.name) }
        guard words.allSatisfy({ word in all.contains { $0.name == word } }) else {
            FileHandle.standardError.write(Data("Known: \(all.map(\.name).joined(separator: ", "))\n".utf8))
            exit(2)
        }
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-benchmarks-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(at: folder) } catch { print("left behind: \(folder.path)") }
        }
        var figures: [Figure] = []
        for benchmark in chosen { figures += try await benchmark.run(folder, count) }
        if asJSON {
            print("[\(figures.map(\.json).joined(separator: ",\n "))]")
        } else {
            for figure in figures { print(figure.line) }
        }
    }
}
