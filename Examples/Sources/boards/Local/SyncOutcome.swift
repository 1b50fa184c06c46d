import Ferry
import SyncCore

/// What a sync came to: what was sent, received, merged and refused, and what is left.
struct SyncOutcome {
    let report: CycleReport
    let queue: QueueSummary
    let held: Int
    let isInStep: Bool
    /// Records that the server's history lost, or lost values of, as this sync found.
    let lostByServer: Int

    init(_ summary: SyncSummary, lostByServer: Int = 0) {
        self.lostByServer = lostByServer
        report = summary.report
        queue = summary.queue
        held = summary.held
        // Without a request nothing was pulled, however quiet the queue is.
        isInStep = summary.isInStep && summary.report.requests > 0
    }

    /// Changes that were sent and answered; one that was refused a connection, or got no answer, was not.
    var sent: Int { report.acknowledged + report.merged + report.refused + report.conflicts }

    /// Changes that are here and not on the server, whatever they wait for.
    var unsent: Int { queue.pending + queue.inFlight + queue.blocked }

    var cause: String? {
        if let cause = report.end.cause {
            guard let before = report.endBefore?.cause else { return cause }
            return "\(cause); before that: \(before)"
        }
        if report.requests == 0 { return "the time was over before the server could be asked" }
        guard unsent > 0 else { return nil }
        // The pull came to its end, and the queue waits: for what happened last, or because it was asked to.
        if let cause = queue.schedule.cause { return cause }
        let floors = [queue.schedule.serverNotBeforeMilliseconds, queue.schedule.changesNotBeforeMilliseconds]
        return floors.contains { $0 != nil } ? "the server asked for a pause" : nil
    }

    var sentence: String {
        var text =
            "sent \(sent), received \(report.received), merged \(report.merged), refused \(report.refused)"
        if report.conflicts > 0 { text += ", in conflict \(report.conflicts)" }
        if report.removed > 0 { text += ", removed by a full pass \(report.removed)" }
        if lostByServer > 0 {
            text += "\nThe server's history was replaced by an older one, which has not all that was in step: "
            text += "\(lostByServer) \(lostByServer == 1 ? "record is" : "records are") lost or otherwise there. "
            text += "`boards conflicts` lists them, `boards restore --lost` writes them again."
        }
        if isInStep { return text + "\nEverything is in step." }
        text += "\nNot in step: \(unsent) unsent, \(queue.failed) set aside, \(held) held"
        if let cause { text += "; \(cause)" }
        if held > 0 { text += "; `boards status` says what keeps back what is held" }
        if case .awaitsConfirmation = report.end { text += "; `boards sync --confirm` says yes" }
        return text + (text.hasSuffix(".") ? "" : ".")
    }

    var json: FieldValue {
        [
            "sent": .int(Int64(sent)), "acknowledged": .int(Int64(report.acknowledged)),
            "received": .int(Int64(report.received)), "merged": .int(Int64(report.merged)),
            "refused": .int(Int64(report.refused)), "conflicts": .int(Int64(report.conflicts)),
            "removed": .int(Int64(report.removed)), "unsent": .int(Int64(unsent)),
            "setAside": .int(Int64(queue.failed)), "held": .int(Int64(held)), "inStep": .bool(isInStep),
            "cause": cause.map(FieldValue.string) ?? .null, "requests": .int(Int64(report.requests)),
            "lostByServer": .int(Int64(lostByServer)), "bytesSent": .int(Int64(report.bytesSent)),
            "bytesReceived": .int(Int64(report.bytesReceived)),
        ]
    }
}
