import Measuring

/// `Tests/Benchmarks/run storage [write] [apply] [queue] [long] [dirty] [claim]`: what the local database costs, beside the bare statements.
@main
struct StorageBenchmarks {
    static func main() async throws {
        try await measure(
            "storage",
            [
                ("write", CapturedWrite.run),
                ("apply", ApplySlices.run),
                ("queue", LongQueue.run),
                ("long", LongDownload.run),
                ("dirty", DirtyWrite.run),
                ("claim", ClaimAndSettle.run),
            ])
    }
}
