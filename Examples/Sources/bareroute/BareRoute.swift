import Foundation
import Hummingbird
import Logging

/// The framework's bare JSON route, and nothing else: what `boards serve` is measured against (`Tests/Benchmarks`).
@main
struct BareRoute {
    /// About as large as the answer to a sync of nothing.
    struct Message: ResponseEncodable {
        var cycleID = "0b6f3f0a-6f0c-4e0e-9d55-0d6a1f6d2a11"
        var dataset = "d-31f0a6f0c4e0e9d550d6a1f6d2a11aaaa"
        var epoch = "e-7f0a6f0c4e0e9d550d6a1f6d2a11aaaa"
        var currentSyncVersion = 57
        var hasMore = false
        var results: [String] = []
        var changedRecords: [String] = []
    }

    static func main() async throws {
        let router = Router()
        router.get("/json") { _, _ in Message() }
        var logger = Logger(label: "bareroute")
        logger.logLevel = .error
        let application = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { channel in
                let line = "listening on http://127.0.0.1:\(channel.localAddress?.port ?? 0)\n"
                FileHandle.standardOutput.write(Data(line.utf8))
            }, logger: logger)
        try await application.runService()
    }
}
