import Foundation
import SyncCore
import Testing

@testable import SyncSimulator

/// Seeds whose app marks rows, and has changes when it asks for its queue, or says itself what changes its writes are.
@Suite struct CaptureTests {
    private func run(_ seed: UInt64, _ capture: SimulatedCapture, bug: PlantedBug? = nil) throws -> SeedReport {
        let entities = capture.applied(to: SimulationSchema.entities)
        return try Simulation.run(
            seed: seed, try SimulationOptions(folder: NSTemporaryDirectory(), entities: entities, bug: bug))
    }

    /// The disk fails between a write and its change in 15, in 642 the power goes then; 3 meets the reference server.
    @Test(
        "Seeds whose rows are marked, or whose app says what it writes, violate nothing",
        arguments: [
            (3, .dirtyFlag), (15, .dirtyFlag), (642, .dirtyFlag), (2, .mixed), (6, .mixed), (8, .explicit),
            (54, .explicit), (1, .inTurn),
        ]
            as [(UInt64, SimulatedCapture)])
    func marked(seed: UInt64, capture: SimulatedCapture) throws {
        let report = try run(seed, capture)
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.isComplete && report.localWrites > 40)
    }

    @Test(
        "A mark that is not made is found, whichever entities have marks",
        arguments: [.triggers, .dirtyFlag, .mixed] as [SimulatedCapture])
    func unmarked(capture: SimulatedCapture) throws {
        let report = try run(1, capture, bug: .updatesNotCaptured)
        #expect(report.violations.contains { $0.invariant == "I4" })
    }

    @Test("A change that is not there, though the app has handed it over, is found")
    func notTaken() throws {
        let report = try run(1, .explicit, bug: .changeLost)
        #expect(report.violations.contains { $0.invariant == "I4" })
    }

    @Test("The seed's app is ours however its writes are noticed, and varies from seed to seed")
    func varies() throws {
        let entities = SimulatedCapture.mixed.applied(to: SimulationSchema.entities)
        let options = try SimulationOptions(folder: "", entities: entities)
        let apps = Set((1...40).map { options.varied(by: $0, choosesRoots: false).schema.entities })
        #expect(apps.count == 3)
        #expect(apps.allSatisfy { $0.map(\.capture) == [.dirtyFlag, .triggers, .dirtyFlag, .triggers] })
    }

    @Test("Units are asked of no run in which rows are marked")
    func units() throws {
        for capture in SimulatedCapture.allCases {
            let options = try SimulationOptions(
                folder: "", entities: capture.applied(to: SimulationSchema.entities))
            #expect(options.reachable.contains(.unitSent) == (capture == .triggers || capture == .explicit))
        }
    }
}
