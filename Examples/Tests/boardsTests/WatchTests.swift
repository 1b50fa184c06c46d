import Foundation
import Testing

@testable import boards

@Suite("sync --watch, with a real server")
struct WatchTests {
    private let shop: Workshop

    init() throws { shop = try Workshop() }

    @Test("a change of one device is told to a watching one by the server's hint, long before the period is over")
    func hinted() async throws {
        let server = try await ServerProcess(shop)
        func change(_ name: String) async throws {
            try await shop.ok("a", "add", "board", "name=\(name)")
            try await shop.ok("a", "--server", server.url, "sync", "--once", "--timeout", "300")
        }
        try await change("first")
        let complaint = shop.file("watch.err")
        let watch = try shop.process(
            ["--data", shop.file("b"), "--server", server.url, "sync", "--watch"], output: shop.file("watch.out"),
            complaint: complaint)
        let pipe = Pipe()
        watch.standardOutput = pipe
        try watch.run()
        /// What it says next; blocks until it says something, or has ended.
        func line() -> String { String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self) }
        #expect(line().contains("received 1"))
        let began = ContinuousClock.now
        try await change("second")
        #expect(line().contains("received 1"))
        // A period is 30 s; what is left is two processes on a busy machine.
        #expect(began.duration(to: .now) < .seconds(20))
        watch.terminate()
        watch.waitUntilExit()
        let said = try String(contentsOfFile: complaint, encoding: .utf8)
        #expect(watch.terminationStatus == 0, "\(said)")
        #expect(server.stop() == 0)
    }
}
