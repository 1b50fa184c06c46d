import SyncCore

// What the trace and the totals say of faults, requests and answers.

extension FaultTape.RequestFault {
    /// The kind, without figures.
    var name: String {
        switch self {
        case .latency: "latency"
        case .lostRequest: "lost request"
        case .lostAnswer: "lost answer"
        case .duplicated: "duplicated"
        case .replayedLater: "replayed later"
        case .status(let status, _): "status \(status)"
        case .missingVerdicts: "missing verdicts"
        case .shortPage: "short page"
        case .backoff: "backoff"
        case .foreignEpoch: "foreign epoch"
        case .foreignDataset: "foreign data set"
        case .arrivesLate: "late arrival"
        case .otherDeployment: "answer of another deployment"
        case .wire(let wire): wire.rawValue
        case .hang: "hang"
        }
    }
}

extension ExchangeRequest {
    /// What a trace says of it: keys and positions, no contents.
    var summary: String {
        let keys = changes.map {
            "\($0.sequence):\($0.id.suffix(6)):\($0.operation.rawValue.prefix(1)):\($0.record)"
        }
        return
            "\(cycleID.suffix(8)) from \(lastSyncVersion) epoch \(epoch ?? "-") settled \(settled ?? -1)"
            + (scopes.map { " of \($0.sorted { $0.key < $1.key }.map { "\($0.key.suffix(6)):\($0.value)" })" } ?? "")
            + "\(fullPass ? " full" : "") limit \(limit) [\(keys.joined(separator: " "))]"
    }
}

extension ExchangeAnswer {
    var summary: String {
        let verdicts = results.map {
            "\($0.changeID.suffix(6)):\($0.verdict.name)\($0.isDuplicate ? "*" : "")"
        }
        return "to \(currentSyncVersion)\(hasMore ? "+" : "") of \(epoch), \(page.count) records"
            + " [\(verdicts.joined(separator: " "))]"
    }
}

extension ServerRecord {
    var detail: String { "\(key)@\(version)\(presence == .live ? "" : " \(presence)")" }
}

extension ChangeResult {
    var detail: String {
        switch verdict {
        case .applied(let version, _, _): "\(changeID.suffix(6)):\(version.map(String.init) ?? "-")"
        case .merged(let record), .conflict(let record): "\(changeID.suffix(6)):\(record.detail)"
        default: "\(changeID.suffix(6))"
        }
    }
}

extension Verdict {
    var name: String {
        switch self {
        case .applied: "applied"
        case .merged: "merged"
        case .conflict: "conflict"
        case .rejected(let rejection): "rejected/\(rejection.code.rawValue)"
        case .blocked: "blocked"
        case .retry: "retry"
        }
    }
}
