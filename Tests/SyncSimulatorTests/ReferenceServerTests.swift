import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What the checks are told of the reference server is what it has.
@Suite struct ReferenceServerTests {
    @Test("Seed 28032: who looks at its records while a request is on its way sees what that did, afterwards")
    func lookedAtOnTheWay() throws {
        let folder = NSTemporaryDirectory() + "server-\(UUID().uuidString)"
        defer {
            do { try FileManager.default.removeItem(atPath: folder) } catch { Issue.record(error) }
        }
        let executor = SeededExecutor(seed: 1)
        let record = Record(executor: executor, keepsLines: true, onLine: nil)
        let server = try ReferenceServer(
            folder: folder, schema: try Schema(SimulationSchema.entities),
            clock: ManualWallClock(following: executor.clock), virtual: executor.clock, seed: 1, record: record,
            maxChanges: 100, bug: nil)
        let request = ExchangeRequest(
            cycleID: "c", deviceID: "a", lastSyncVersion: 0,
            changes: [
                Change(
                    id: "k-1", sequence: 1, record: RecordKey("board", "b"), operation: .create,
                    stamp: Stamp(milliseconds: 1, counter: 0), fields: ["name": FieldDelta(old: nil, new: "B")])
            ])
        // Owned by this test, which drives it to its end.
        let sending = Task(executorPreference: executor) {
            try await server.answer(request, device: 0, account: "user", tokens: nil, way: Way())
        }
        var looks: [[String]] = []
        let end = executor.run {
            looks.append(server.records(of: "user").map(\.key.id))
            return false
        }
        #expect(end == .idle)
        #expect(!sending.isCancelled)
        #expect(looks.first == [])
        #expect(looks.last == ["b"])
        #expect(record.violations.isEmpty)
    }
}
