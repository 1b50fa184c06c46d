import Foundation
import Testing

@testable import SyncSimulator

/// A world is made of its tapes less what is left out, and of nothing else.
@Suite struct TapeTests {
    private let options: SimulationOptions

    init() throws { options = try SimulationOptions(folder: NSTemporaryDirectory()) }

    /// What is to happen in a world, line by line.
    private func course(
        _ seed: UInt64, withoutSteps: Set<Int> = [], withoutFaults: Set<Int> = []
    ) throws -> [String] {
        var options = options
        (options.withoutSteps, options.withoutFaults) = (withoutSteps, withoutFaults)
        let world = try World(seed: seed, options: options)
        var lines: [String] = []
        while let (at, event) = world.agenda.next(before: .max) { lines.append("\(at) \(event)") }
        for device in world.devices {
            let faults = device.network.faults.sorted { $0.key < $1.key }.map { "\(device.index) \($0)" }
            let crashes = device.hook.crashes.sorted().map { "\(device.index) dies at \($0)" }
            lines += faults + crashes + device.hook.failures.map { "\(device.index) fails at \($0)" }
        }
        return lines
    }

    @Test("Users of a seed of the swarm have habits of their own; those of other seeds are alike")
    func swarm() {
        func cancels(from first: UInt64) -> [Double] {
            (first..<first + 40).map { seed in
                let steps = WorkloadTape(seed: seed).steps
                let cancels = steps.count { if case .cancel = $0.action { true } else { false } }
                return Double(cancels) / Double(steps.count)
            }
        }
        let (usual, swarm) = (cancels(from: 1), cancels(from: WorkloadTape.firstOfSwarm))
        #expect(usual.max() ?? 1 < 0.1)
        #expect(swarm.contains(0) && swarm.contains { $0 > 0.1 })
    }

    @Test("Seeds with a bias have more of what it names, on both tapes")
    func bias() {
        func shares(_ bias: TapeBias?) -> (retries: Double, remakes: Double, refusals: Double) {
            var (steps, retries, remakes, requests, refusals) = (0, 0, 0, 0, 0)
            for seed in 1...40 as ClosedRange<UInt64> {
                let workload = WorkloadTape(seed: seed, bias: bias)
                for step in workload.steps {
                    steps += 1
                    if case .retry = step.action { retries += 1 }
                    if case .remake = step.action { remakes += 1 }
                }
                let tape = FaultTape(
                    seed: seed, devices: workload.devices, duration: workload.duration, bias: bias)
                for case .request(_, _, let fault) in tape.entries.map(\.fault) {
                    requests += 1
                    if case .status(413, _) = fault { refusals += 1 }
                }
            }
            return (
                Double(retries) / Double(steps), Double(remakes) / Double(steps), Double(refusals) / Double(requests)
            )
        }
        let (usual, asides, churn) = (shares(nil), shares(.asides), shares(.churn))
        #expect(asides.retries > usual.retries * 2 && asides.refusals > usual.refusals * 3)
        #expect(churn.remakes > usual.remakes * 2)
        func count(_ bias: TapeBias?, _ isOne: (FaultTape.TimedFault) -> Bool) -> Int {
            (1...40 as ClosedRange<UInt64>).reduce(0) { sum, seed in
                let tape = FaultTape(seed: seed, devices: 2, duration: 100_000, bias: bias)
                return sum
                    + tape.entries.count { if case .timed(_, let fault) = $0.fault { isOne(fault) } else { false } }
            }
        }
        func more(_ bias: TapeBias, _ isOne: (FaultTape.TimedFault) -> Bool) -> Bool {
            count(bias, isOne) > count(nil, isOne) * 4 + 20
        }
        #expect(more(.histories) { $0 == .restoredServer })
        #expect(more(.accounts) { if case .signOut = $0 { true } else { false } })
        #expect(more(.processes) { if case .secondProcess = $0 { true } else { false } })
    }

    @Test("A mistake about two processes is looked for in seeds that have them")
    func canShow() {
        func seeds(_ bug: PlantedBug) -> [UInt64] { (1...1_000).filter { bug.canShow(in: $0) } }
        #expect(seeds(.newKeyOnRetry).count == 1_000)
        let (shared, left) = (seeds(.leaseIgnored), seeds(.signOutUnheard))
        #expect((50...200).contains(shared.count))
        #expect(Set(left).isSubset(of: shared) && left.contains(758) && left.count < shared.count / 2)
    }

    @Test("Leaving a step or a fault out moves no other", arguments: [5, 8, 12])
    func leavingOut(seed: UInt64) throws {
        let all = try course(seed)
        let workload = WorkloadTape(seed: seed)
        let faults = FaultTape(seed: seed, devices: workload.devices, duration: workload.duration).entries
        #expect(Set(workload.steps.map(\.number)).count == workload.steps.count)
        #expect(Set(faults.map(\.number)).count == faults.count)
        for step in [workload.steps[0], workload.steps[20]] {
            let line = "\(step.atMilliseconds) \(Agenda.Event.step(step))"
            #expect(all.contains(line))
            #expect(try course(seed, withoutSteps: [step.number]) == all.filter { $0 != line })
        }
        for entry in faults {
            guard case .timed(let at, let timed) = entry.fault else { continue }
            let line = "\(at) \(Agenda.Event.fault(timed))"
            var fewer = all
            fewer.remove(at: try #require(all.firstIndex(of: line)))
            #expect(try course(seed, withoutFaults: [entry.number]) == fewer)
        }
    }
}
