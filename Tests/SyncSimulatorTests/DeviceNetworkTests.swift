import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What the network between a device and the model server does to requests, and what is said of it.
@Suite struct DeviceNetworkTests {
    private let executor = SeededExecutor(seed: 1)
    private let record: Record
    private let network: DeviceNetwork
    private let server: ModelBackend

    init() throws {
        let schema = try Schema(SimulationSchema.entities)
        let clock = ManualWallClock(following: executor.clock)
        server = ModelBackend { ModelServer(schema: schema, clock: clock, dataset: "d-\($0)", pageLimit: 100) }
        record = Record(executor: executor, keepsLines: true, onLine: nil)
        network = DeviceNetwork(device: 0, server: server, clock: executor.clock, record: record)
        network.begin(1)
    }

    @Test("A request that its device gave up on arrives after a later one, and takes effect then")
    func arrivesLate() throws {
        network.faults[1] = .arrivesLate(3_000, patience: 1_000)
        let failure = try failed(request("b-1", 1))
        #expect(failure?.kind == .network)
        #expect(failure?.reachedServer == true)
        #expect(executor.clock.now.elapsed == .seconds(1))
        #expect(try failed(request("b-2", 2)) == nil)
        #expect(names == ["b-2"])
        #expect(!network.hasDueCopies)
        executor.clock.advance(by: .seconds(3))
        #expect(network.hasDueCopies)
        try executor.complete { [network] in await network.deliverCopies() }
        #expect(names == ["b-1", "b-2"])
        #expect(record.coverage[.reorderedRequest] == 1)
        #expect(record.coverage[.lateEffect] == 1)
        #expect(!network.hasDueCopies)
    }

    @Test(
        "What arrives late and before every other is no request out of order; what was done meanwhile takes no effect")
    func arrivesLateAlone() throws {
        network.faults[1] = .arrivesLate(3_000, patience: 1_000)
        network.faults[2] = .arrivesLate(60_000, patience: 0)
        _ = try failed(request("b-1", 1))
        executor.clock.advance(by: .seconds(3))
        try executor.complete { [network] in await network.deliverCopies() }
        #expect(record.coverage[.reorderedRequest] == nil)
        _ = try failed(request("b-2", 2))
        #expect(try failed(request("b-2", 2)) == nil)
        executor.clock.advance(by: .seconds(60))
        try executor.complete { [network] in await network.deliverCopies() }
        #expect(record.coverage[.reorderedRequest] == 1)
        #expect(record.coverage[.lateEffect] == 1)
        #expect(record.coverage[.lateCopyOfRequest] == 1)
    }

    @Test("NET-22: another deployment's answer is none of this server's, and not heard as one")
    func otherDeployment() throws {
        network.faults[2] = .otherDeployment
        var heard = 0
        network.onAnswer = { _, _, _ in heard += 1 }
        let first = try answer(request("b-1", 1))
        #expect(heard == 1)
        var second = request("b-2", 2)
        (second.dataset, second.epoch) = (first.dataset, first.epoch)
        let foreign = try answer(second)
        #expect(foreign.dataset != first.dataset)
        #expect(foreign.epoch == first.epoch)
        #expect(foreign.results.map(\.changeID) == second.changes.map(\.id))
        #expect(heard == 1)
        #expect(names == ["b-1"])
        #expect(record.coverage[.otherDeployment] == 1)
    }

    @Test(
        "Where answers are no bytes, one that is spoiled is a lost one, by its name too",
        arguments: FaultTape.WireFault.allCases)
    func spoiled(wire: FaultTape.WireFault) throws {
        network.faults[1] = .wire(wire)
        #expect(try failed(request("b-1", 1))?.kind == .network)
        #expect(names == ["b-1"])
        #expect(record.faults == ["lost answer": 1])
        #expect(record.coverage[.answerLostAfterCommit] == 1)
        #expect(record.violations.isEmpty)
    }

    @Test("In a storm nothing is answered; what times out may be done all the same", arguments: [false, true])
    func storm(isDone: Bool) throws {
        network.storm = .status(503, retryAfter: 7)
        let refused = try failed(request("b-1", 1))
        #expect(refused?.status == 503)
        #expect(refused?.retryAfterSeconds == 7)
        network.storm = .timeOut(isDone: isDone)
        let late = try failed(request("b-2", 2))
        #expect(late?.status == nil)
        #expect(late?.reachedServer == true)
        #expect(executor.clock.now.elapsed == .seconds(60))
        #expect(names == (isDone ? ["b-2"] : []))
        network.storm = nil
        #expect(try failed(request("b-1", 1)) == nil)
    }

    @Test(
        "PRC-11 two processes that sync one file at once are found, and not where the first one stands still or is dead",
        arguments: [(stands: false, dies: false), (true, false), (false, true)])
    func twoProcesses(stands: Bool, dies: Bool) throws {
        network.begin(2)
        network.faults[1] = .latency(there: 1_000, back: 0)
        let first = network.port(of: 1)
        let second = network.port(of: 2)
        let (one, two) = (request("b-1", 1), request("b-2", 2))
        try executor.complete { [network] in
            async let late = try? first.exchange(one)
            await Task.yield()
            if stands { network.stands(1) }
            if dies { network.end(1) }
            async let answer = second.exchange(two)
            _ = try await (late, answer)
        }
        #expect(record.violations.map(\.invariant) == (stands || dies ? [] : ["lease"]))
        // One after the other they may.
        _ = try executor.complete { try await second.exchange(two) }
        #expect(record.violations.count == (stands || dies ? 0 : 1))
    }

    @Test("PRC-11 who was overtaken as it stood still may send once what it had made ready, and no more")
    func overtakenSends() throws {
        network.begin(2)
        network.faults[1] = .latency(there: 1_000, back: 0)
        var lease: Int64 = 1
        network.lease = { lease }
        network.stands(1)
        lease = 2
        let first = network.port(of: 1)
        let second = network.port(of: 2)
        let (one, two, three) = (request("b-1", 1), request("b-2", 2), request("b-3", 3))
        try executor.complete { [record] in
            async let late = try? second.exchange(two)
            await Task.yield()
            _ = try await first.exchange(one)
            #expect(record.violations.isEmpty)
            _ = try await first.exchange(three)
            _ = await late
        }
        #expect(record.violations.map(\.invariant) == ["lease"])
    }

    @Test(
        "PRC-11 what was settled by a process that has taken the file over is not sent again by the one that stood still",
        arguments: [false, true])
    func overtaken(isOvertaken: Bool) throws {
        var lease: Int64 = 1
        network.lease = {
            if isOvertaken { lease += 1 }
            return lease
        }
        #expect(try failed(request("b-1", 1)) == nil)
        var settling = request("b-2", 2)
        settling.settled = 1
        #expect(try failed(settling) == nil)
        var again = request("b-1", 1)
        again.settled = 1
        #expect(try answer(again).results.map(\.verdict.name) == ["rejected/expired"])
        #expect(record.violations.map(\.invariant) == (isOvertaken ? [] : ["I1"]))
    }

    // MARK: Helpers

    private var names: [String] { server.records(of: SimulatedDevice.account).map(\.key.id).sorted() }

    private func request(_ id: String, _ sequence: Int64) -> ExchangeRequest {
        ExchangeRequest(
            cycleID: "c", deviceID: "a", lastSyncVersion: 0,
            changes: [
                Change(
                    id: "k-\(sequence)", sequence: sequence, record: RecordKey("board", id), operation: .create,
                    stamp: Stamp(milliseconds: UInt64(sequence), counter: 0),
                    fields: ["name": FieldDelta(old: nil, new: "B")])
            ])
    }

    private func answer(_ request: ExchangeRequest) throws -> ExchangeAnswer {
        let port = network.port(of: 1)
        return try executor.complete { try await port.exchange(request) }
    }

    /// How it failed; `nil` for one that was answered.
    private func failed(_ request: ExchangeRequest) throws -> ExchangeFailure? {
        do {
            _ = try answer(request)
            return nil
        } catch let failure as ExchangeFailure { return failure }
    }
}
