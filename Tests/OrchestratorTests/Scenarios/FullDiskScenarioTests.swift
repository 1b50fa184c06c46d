import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// A whole engine over a disk that has no room for what the server sends.
@Suite("An engine on a full disk")
struct FullDiskScenarioTests {
    @Test("PRC-08 a page that does not fit: the status says so, tries keep their pauses; it goes on when there is room")
    func page() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try stage.device(server, seed: 2)
            for number in 0..<40 {
                try await other.addBoard("b-\(number)", String(repeating: "x", count: 10_000))
            }
            _ = try await other.engine.sync(for: .seconds(10))
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            try await device.addBoard("mine")
            try limit(device, to: "page_count")
            try await stage.running(device) {
                try await stage.pass(.seconds(1_200))
                guard case .store(let failure)? = await device.status.lastEnd else {
                    Issue.record("it ended with \(String(describing: await device.status.lastEnd))")
                    return
                }
                #expect(failure.kind == .full && failure.advice == .askUser)
                #expect(await device.status.lastEnd?.cause?.isEmpty == false)
                // Between 2 and 32 s apart, 17 in the mean once the window is at its widest.
                let times = port.requests.map(\.seconds)
                let gaps = zip(times, times.dropFirst()).map { $1 - $0 }
                #expect(times.count > 30 && times.count < 110, "\(times.count)")
                #expect(gaps.allSatisfy { $0 >= 1.999 && $0 < 32.1 })
                // What is here can be read, and what was sent did not stay behind for want of room.
                #expect(try await device.store.position().checkpoint == 0)
                #expect(try device.rows("board").count == 1)
                #expect(Set(port.requests.flatMap(\.changes).map(\.id)).count == 1)
                try limit(device, to: "1000000")
                try await stage.pass(.seconds(33))
                #expect(await device.status.lastEnd == .complete)
                #expect(try device.rows("board").count == 41)
                #expect(try await device.store.summary().hasWork == false)
            }
            #expect(server.effects.count == 41)
            #expect(try await device.store.integrityProblems().isEmpty)
            try await device.end()
            try await other.end()
        }
    }

    private func limit(_ device: Device, to pages: String) throws {
        try device.store.database.writeWithoutTransaction { db in
            let number = pages == "page_count" ? try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0 : Int(pages) ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(number)")
        }
    }
}
