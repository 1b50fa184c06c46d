import Measuring

/// `Tests/Benchmarks/run engine [idle] [latency]`: what a cycle costs on this side, and what round trips cost on a slow line.
@main
struct EngineBenchmarks {
    static func main() async throws {
        try await measure("engine", [("idle", IdleCycle.run), ("latency", Latency.run)])
    }
}
