import Ferry
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

    @Test("a wish to end it that comes before it runs ends it all the same", .timeLimit(.minutes(5)))
    func interruptedEarly() async throws {
        let device = try Device.open(folder: shop.file("a"))
        let connection = try Connection(server: try #require(URL(string: "http://127.0.0.1:1")), token: nil)
        let interruption = Interruption()
        await interruption.wish()
        let watcher = Watcher(engine: connection.engine(device.store), store: device.store, isJSON: true)
        let watched = try await watcher.run(for: nil, until: interruption)
        #expect(!watched.needsOpening)
        // Another wait hears of it as well: a database may have been opened anew in between.
        await interruption.wait()
        await connection.close()
        try await device.store.close()
    }

    @Test(
        "a database that is removed, or found damaged, while it is watched is opened anew: what is written then is sent"
    )
    func replaced() async throws {
        let server = try await ServerProcess(shop)
        try await shop.ok("a", "add", "board", "name=first")
        try await shop.ok("a", "--server", server.url, "sync", "--timeout", "300")
        let complaint = shop.file("watch.err")
        let watch = try shop.process(
            ["--data", shop.file("b"), "--server", server.url, "sync", "--watch"], output: shop.file("watch.out"),
            complaint: complaint)
        let pipe = Pipe()
        watch.standardOutput = pipe
        try watch.run()
        func line() -> String { String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self) }
        #expect(line().contains("received 1"))
        let file = shop.file("b") + "/boards.sqlite"
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: file + suffix) }
        try await shop.ok("b", "add", "board", "name=second")
        // The first board comes again; the second goes out in the same cycle or in another one.
        var said = ""
        while !said.contains("sent 1") {
            let next = line()
            guard !next.isEmpty else { break }
            said += next
        }
        #expect(said.contains("sent 1"), "\(said)")
        try FileManager.default.removeItem(atPath: shop.file("b"))
        watch.waitUntilExit()
        let complained = try String(contentsOfFile: complaint, encoding: .utf8)
        #expect(watch.terminationStatus == 1)
        #expect(complained.contains("is gone: it was moved or removed while it was watched."), "\(complained)")
        #expect(server.stop() == 0)
    }
}
