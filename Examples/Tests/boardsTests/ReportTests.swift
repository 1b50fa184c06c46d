import Ferry
import SyncCore
import Testing

@testable import boards

@Suite("Changes as the commands tell them")
struct ReportTests {
    private func failed() -> FailedChange {
        let record = RecordKey("board", "b")
        let change = Change(
            id: "k", sequence: 1, record: record, operation: .create, stamp: .zero, fields: [:])
        return FailedChange(
            queued: QueuedChange(change: change, state: .failed),
            reason: SetAsideReason(code: "forbidden", message: "not yours"), failedAtMilliseconds: 0,
            isUncertain: false)
    }

    @Test(
        "QUE-03 of what needs a refused change a line names the first ten, and says how many more there are; JSON has all",
        arguments: [(1, "k1"), (10, "k1, k2, k3, k4, k5, k6, k7, k8, k9, k10")])
    func few(count: Int, names: String) {
        let keys = (1...count).map { "k\($0)" }
        let line = ChangeReport.line(failed(), waiting: keys)
        #expect(line.hasSuffix("\n     \(count) more need it, and would be discarded with it: \(names)"))
        let many = (1...20_000).map { "k\($0)" }
        let last = ChangeReport.line(failed(), waiting: many).split(separator: "\n").last ?? ""
        #expect(
            last
                == "     20000 more need it, and would be discarded with it: k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, and 19990 more"
        )
        #expect(ChangeReport.json(failed(), waiting: many)["blocked"] == .array(many.map(FieldValue.string)))
        #expect(!ChangeReport.line(failed(), waiting: []).contains("need it"))
    }
}

@Suite("What a sync came to")
struct SyncOutcomeTests {
    private func report(_ end: CycleEnd) -> CycleReport {
        var report = CycleReport()
        report.requests = 1
        report.end = end
        return report
    }

    private func cause(of ends: [CycleEnd]) -> String? {
        var total = CycleReport()
        for end in ends { total.add(report(end)) }
        return SyncOutcome(SyncSummary(report: total, queue: QueueSummary(pending: 1), held: 0)).cause
    }

    @Test("NET-05 a sync that was cut off names what went wrong before; what has gone well since is no cause")
    func cutOff() {
        let failed = CycleEnd.exchange(
            ExchangeFailure(kind: .temporary, status: 503, message: "Out of order", reachedServer: true))
        #expect(cause(of: [.cancelled]) == "stopped before the end")
        let all: [[CycleEnd]] = [
            [failed, .cancelled], [.leaseHeld, failed, .cancelled], [failed, .cancelled, .cancelled],
        ]
        for tries in all {
            #expect(cause(of: tries)?.hasPrefix("stopped before the end; before that: ") == true)
            #expect(cause(of: tries)?.contains("Out of order") == true)
        }
        #expect(cause(of: [failed, .complete, .cancelled]) == "stopped before the end")
        #expect(cause(of: [.cancelled, failed])?.contains("stopped") == false)
    }
}
