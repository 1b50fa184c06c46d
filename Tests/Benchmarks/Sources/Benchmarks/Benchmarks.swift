import Measuring

/// `Tests/Benchmarks/run transport`
@main
struct Benchmarks {
    static func main() async throws {
        try await measure("transport", [("json", TransportBenchmark.run)])
    }
}
