import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// A situation is said to be reached where it was, and nowhere near it.
@Suite struct CoverageTests {
    @Test("A child is blocked by its refused parent; what waits for another change of its own record is not")
    func blockedByRefusal() {
        let parent = change(1, RecordKey("board", "b"), ["name": "B"])
        let child = change(2, RecordKey("list", "l"), ["idBoard": "b"])
        let second = change(3, RecordKey("board", "b"), ["name": "C"], .update)
        #expect(covered([parent, child], .rejected(Rejection(code: .forbidden, message: ""))) == [.blockedByRefusal])
        #expect(covered([parent, second], .rejected(Rejection(code: .forbidden, message: ""))) == [])
        #expect(covered([parent, child], .retry(afterSeconds: 1)) == [.blockedByRetry])
        #expect(covered([parent, child], .conflict(record: ServerRecord(key: parent.record, version: 1))) == [])
    }

    @Test("A unit counts when it is sent, with more than one of its members in the request")
    func unitSent() throws {
        let world = try quietWorld()
        var (first, second) = (change(1, RecordKey("board", "b"), [:]), change(2, RecordKey("board", "c"), [:]))
        first.unit = "u"
        world.record.saw(request([first, second]), from: 0)
        #expect(world.record.coverage[.unitSent] == nil)
        (first.id, second.id, second.unit) = ("k-3", "k-4", "u")
        world.record.saw(request([first, second]), from: 0)
        #expect(world.record.coverage[.unitSent] == 1)
    }

    @Test("There is no new epoch where there is no backup to restore, nor a full queue where nothing was written")
    func restoredServer() throws {
        let world = try quietWorld()
        world.restoreServer()
        #expect(world.record.coverage[.serverRestored] == nil)
        for device in world.devices { world.start(device.index) }
        world.run(until: 5_000)
        world.backUpServer()
        world.restoreServer()
        #expect(world.record.coverage[.serverRestored] == 1)
        #expect(world.record.coverage[.newEpochWithFullQueue] == nil)
        // Four changes more than none are a queue, and not a full one.
        for count in 1...5 {
            world.devices[0].network.isOffline = true
            world.write([.insert(RecordKey("board", "b-\(count)"), ["name": "B"])], isUnit: false, 0)
            world.restoreServer()
            #expect(world.record.coverage[.newEpochWithFullQueue] == (count == 5 ? 1 : nil))
        }
        for device in world.devices { device.stop() }
    }

    // MARK: Helpers

    /// A seed in which nobody does anything, and nothing goes wrong.
    private func quietWorld() throws -> World {
        let options = try SimulationOptions(
            folder: NSTemporaryDirectory(), withoutSteps: Set(0..<10_000), withoutFaults: Set(0..<10_000))
        return try World(seed: 2, options: options)
    }

    private func change(
        _ sequence: Int64, _ record: RecordKey, _ fields: [String: FieldValue],
        _ operation: SyncCore.Operation = .create
    ) -> Change {
        Change(
            id: "k-\(sequence)", sequence: sequence, record: record, operation: operation,
            stamp: Stamp(milliseconds: UInt64(sequence), counter: 0),
            fields: fields.mapValues { FieldDelta(old: nil, new: $0) })
    }

    private func request(_ changes: [Change]) -> ExchangeRequest {
        ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: changes)
    }

    /// What is covered of blocked changes where the first has this verdict, and the second waits for it.
    private func covered(_ changes: [Change], _ verdict: Verdict) -> [Situation] {
        let record = Record(executor: SeededExecutor(seed: 1), keepsLines: false, onLine: nil)
        let results = [
            ChangeResult(changeID: changes[0].id, verdict: verdict),
            ChangeResult(changeID: changes[1].id, verdict: .blocked(by: changes[0].id)),
        ]
        let answer = ExchangeAnswer(
            dataset: nil, epoch: "e", currentSyncVersion: 1, results: results, page: ArrayPage([]))
        record.heard(answer, of: request(changes), device: 0)
        return [.blockedByRefusal, .blockedByRetry].filter { record.coverage[$0] != nil }
    }
}
