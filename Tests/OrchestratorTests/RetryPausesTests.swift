import SyncCore
import Testing

@testable import Orchestrator

@Suite struct RetryPausesTests {
    private func failed(_ kind: FailureClass, retryAfter: Double? = nil) -> CycleReport {
        var report = CycleReport()
        report.end = .exchange(
            ExchangeFailure(kind: kind, message: "as the test wants it", retryAfterSeconds: retryAfter))
        return report
    }

    @Test("Our own pauses double up to the longest")
    func growth() {
        var pauses = RetryPauses(EngineConfiguration())
        let waits = (0..<5).compactMap { _ in
            pauses.next(after: failed(.network), QueueSummary(), nowMilliseconds: 0)?.wait
        }
        #expect(waits == [.milliseconds(200), .milliseconds(400), .milliseconds(800), .seconds(1), .seconds(1)])
    }

    @Test("NET-16 what the server asks for is waited in full, and not at all where the time is over before")
    func serversWord() {
        var pauses = RetryPauses(EngineConfiguration())
        let pause = pauses.next(after: failed(.temporary, retryAfter: 7), QueueSummary(), nowMilliseconds: 0)
        #expect(pause?.wait == .seconds(7))
        #expect(pause?.fitting(.seconds(60)) == .seconds(7))
        #expect(pause?.fitting(.seconds(5)) == nil)
    }

    @Test("Our own pause is cut short for a last try before the time is over")
    func lastTry() {
        let own = RetryPauses.Pause(wait: .seconds(1))
        #expect(own.fitting(.milliseconds(800)) == .milliseconds(500))
        #expect(own.fitting(.milliseconds(200)) == nil)
    }

    @Test("Without the credentials, or with another data set, trying again by itself changes nothing")
    func hopeless() {
        var pauses = RetryPauses(EngineConfiguration())
        for end in [CycleEnd.needsCredentials, .otherDataset, .cancelled] {
            var report = CycleReport()
            report.end = end
            #expect(pauses.next(after: report, QueueSummary(pending: 1), nowMilliseconds: 0) == nil)
        }
    }

    @Test("DL-10 what waits for the app's word keeps nothing from being sent, and is not asked about again by itself")
    func confirmation() {
        var pauses = RetryPauses(EngineConfiguration())
        var report = CycleReport()
        report.end = .awaitsConfirmation
        #expect(pauses.next(after: report, QueueSummary(), nowMilliseconds: 0) == nil)
        #expect(pauses.next(after: report, QueueSummary(pending: 1), nowMilliseconds: 0) != nil)
    }

    @Test("A verdict to try later keeps the queue and waits as long as it says, though the pull was complete")
    func retryVerdict() {
        var pauses = RetryPauses(EngineConfiguration())
        let schedule = QueueSchedule(changesNotBeforeMilliseconds: 5_000)
        let left = QueueSummary(inFlight: 1, schedule: schedule)
        #expect(
            pauses.next(after: CycleReport(), left, nowMilliseconds: 1_000)
                == RetryPauses.Pause(wait: .seconds(4), isServers: true))
    }
}
