import SyncCore
import Testing

@testable import Orchestrator

@Suite struct CycleMachineTests {
    private func failure(_ kind: FailureClass, code: String? = nil) -> ExchangeFailure {
        ExchangeFailure(kind: kind, code: code, message: "as the test wants it")
    }

    @Test("A cycle with nothing to do costs one request")
    func idle() {
        var machine = CycleMachine()
        #expect(machine.begin(hasBatch: false) == .request(withChanges: false))
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: false) == .finish(.complete))
    }

    @Test("One request carries changes and brings the page; more pages follow, with more changes where there are any")
    func pages() {
        var machine = CycleMachine()
        #expect(machine.begin(hasBatch: true) == .request(withChanges: true))
        #expect(machine.applied(hasMore: true, inFullPass: false, hasBatch: true) == .request(withChanges: true))
        #expect(machine.applied(hasMore: true, inFullPass: false, hasBatch: false) == .request(withChanges: false))
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: false) == .finish(.complete))
    }

    @Test("A push that failed by the server's fault never keeps the pull away, and is not called complete")
    func failedPush() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        let trouble = failure(.temporaryLonger)
        #expect(machine.failed(trouble, hadChanges: true, hasBatch: false) == .request(withChanges: false))
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: false) == .finish(.exchange(trouble)))
    }

    @Test("Missing verdicts are asked for again once in a cycle; then the push keeps to its own pauses")
    func missingVerdicts() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        #expect(machine.lacked(hasBatch: false) == .request(withChanges: false))
        #expect(!machine.mustPushWait)
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: true) == .request(withChanges: true))
        #expect(machine.lacked(hasBatch: false) == .request(withChanges: false))
        #expect(machine.mustPushWait)
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: false) == .finish(.complete))
    }

    @Test("Without a network nothing more is tried in this cycle")
    func network() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        #expect(
            machine.failed(failure(.network), hadChanges: true, hasBatch: false)
                == .finish(.exchange(failure(.network))))
    }

    @Test("QUE-15 a batch that is too large goes again at once, halved")
    func halved() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        #expect(machine.failed(failure(.tooLarge), hadChanges: true, hasBatch: true) == .request(withChanges: true))
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: false) == .finish(.complete))
    }

    @Test("A change that failed alone by a 4xx that blames none waits, and the pull goes without it")
    func unknown() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        let trouble = failure(.unknown)
        #expect(machine.failed(trouble, hadChanges: true, hasBatch: true) == .request(withChanges: true))
        #expect(machine.failed(trouble, hadChanges: true, hasBatch: false) == .request(withChanges: false))
        #expect(machine.applied(hasMore: false, inFullPass: false, hasBatch: false) == .finish(.exchange(trouble)))
    }

    @Test("Another data set stops the cycle; another epoch begins a full pass, and its end is asked for")
    func history() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        #expect(
            machine.failed(failure(.history, code: "otherDataset"), hadChanges: true, hasBatch: true)
                == .finish(.otherDataset))
        var other = CycleMachine()
        _ = other.begin(hasBatch: false)
        var changed = failure(.history, code: "epochChanged")
        changed.epoch = "e-2"
        #expect(other.failed(changed, hadChanges: false, hasBatch: false) == .beginFullPass(epoch: "e-2"))
        // The epoch beside an expired checkpoint is the one that it was: nothing was replaced.
        var expired = failure(.history, code: "checkpointExpired")
        expired.epoch = "e-1"
        var late = CycleMachine()
        _ = late.begin(hasBatch: false)
        #expect(late.failed(expired, hadChanges: false, hasBatch: false) == .beginFullPass(epoch: nil))
        #expect(other.begin(hasBatch: false) == .request(withChanges: false))
        #expect(other.applied(hasMore: false, inFullPass: true, hasBatch: false) == .endFullPass)
        #expect(other.fullPassEnded(.removed(0), hasBatch: false) == .finish(.complete))
    }

    @Test("A server that changes its epoch with each answer does not hold the cycle for ever")
    func endlessHistory() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: false)
        let changed = failure(.history, code: "epochChanged")
        for _ in 0..<3 {
            #expect(machine.failed(changed, hadChanges: false, hasBatch: false) == .beginFullPass(epoch: nil))
            _ = machine.begin(hasBatch: false)
        }
        #expect(machine.failed(changed, hadChanges: false, hasBatch: false) == .finish(.exchange(changed)))
    }

    @Test("A server that answers hasMore for ever is left after the most requests")
    func endlessPages() {
        var machine = CycleMachine(mostRequests: 3)
        _ = machine.begin(hasBatch: false)
        _ = machine.applied(hasMore: true, inFullPass: false, hasBatch: false)
        _ = machine.applied(hasMore: true, inFullPass: false, hasBatch: false)
        #expect(machine.applied(hasMore: true, inFullPass: false, hasBatch: false) == .finish(.tooLong))
    }

    @Test("SCH-11 a cycle that was stopped says so, and is not complete")
    func cancelled() {
        var machine = CycleMachine()
        _ = machine.begin(hasBatch: true)
        var stopped = failure(.network)
        stopped.isCancelled = true
        #expect(machine.failed(stopped, hadChanges: true, hasBatch: false) == .finish(.cancelled))
    }
}
