import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// Seeds whose devices send each change in a request of its own, by the queue's loop, while their cycles pull.
@Suite struct SingleSenderTests {
    private func options() throws -> SimulationOptions {
        var options = try SimulationOptions(folder: NSTemporaryDirectory())
        options.sendsSingly = true
        return options
    }

    /// With the model server and the reference one, which then has two requests of a device at once.
    @Test("Seeds that send one change at a time violate nothing", arguments: [1, 5, 6, 12, 51] as [UInt64])
    func single(seed: UInt64) throws {
        let report = try Simulation.run(seed: seed, try options())
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.isComplete)
    }

    /// A page and a verdict that came in one moment made two of one record (43326, 43374), and what a page had freed was told to nobody
    /// (10357).
    @Test(
        "Seeds that failed by what pages and single changes do to one another violate nothing",
        arguments: [(43_326, nil), (43_374, nil), (10_357, .explicit)] as [(UInt64, SimulatedCapture?)])
    func beside(seed: UInt64, capture: SimulatedCapture?) throws {
        let entities = capture?.applied(to: SimulationSchema.entities) ?? SimulationSchema.entities
        var options = try SimulationOptions(folder: NSTemporaryDirectory(), entities: entities)
        options.sendsSingly = true
        options.hasConditions = capture == nil
        let report = try Simulation.run(seed: seed, options)
        #expect(report.violations.isEmpty && report.isComplete, "\(report.violations)")
    }

    @Test("What goes in one request is one change, or one unit")
    func requests() throws {
        var sent: [[Change]] = []
        var seed = UInt64(1)
        while sent.filter({ $0.count > 1 }).isEmpty, seed < 20 {
            let world = try World(seed: seed, options: try options())
            world.record.onRequest = { request, _ in sent.append(request.changes) }
            world.start(0)
            world.run(until: 1_000)
            world.write([.insert(RecordKey("board", "b-1"), ["name": "B"])], isUnit: false, 0)
            world.write([.insert(RecordKey("board", "b-2"), ["name": "B"])], isUnit: false, 0)
            world.write(
                [.insert(RecordKey("board", "b-3"), ["name": "B"]), .insert(RecordKey("board", "b-4"), ["name": "B"])],
                isUnit: true, 0)
            world.run(until: 120_000)
            for device in world.devices { device.stop() }
            seed += 1
        }
        #expect(sent.contains { $0.count == 1 } && sent.contains { $0.count == 2 })
        for changes in sent where changes.count > 1 { #expect(Set(changes.map(\.unit)).count == 1) }
    }
}
