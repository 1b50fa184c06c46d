import Measuring

/// `Tests/Benchmarks/run transport`, `wire` and `server`.
@main
struct Benchmarks {
    static func main() async throws {
        if CommandLine.arguments.contains("server") {
            try await measure("server", [("http", ServerBenchmark.run)])
        } else {
            try await measure("transport", [("json", TransportBenchmark.run)])
        }
    }
}
