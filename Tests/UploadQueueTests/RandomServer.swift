import SyncCore
import SyncTesting

/// What the random driver found to be against the rules.
struct Violation: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// A server that decides by dice, but keeps PROTOCOL.md: a key has one outcome for ever, what needs an undone change is
/// blocked, a unit is all or nothing.
struct RandomServer {
    /// Whether it still refuses, delays and contradicts.
    var isHostile = true
    private(set) var decided: [String: Verdict] = [:]
    private var contents: [String: Change] = [:]
    private var live: Set<RecordKey> = []
    private var version: Int64 = 0

    /// The verdicts for a request, some of them missing.
    mutating func answer(_ claim: Claim, _ random: inout SeededGenerator) throws(Violation) -> [ChangeResult] {
        var results: [ChangeResult] = []
        var undone: [RecordKey: String] = [:]
        var halted: String?
        let units = refusedUnits(claim, &random)
        for queued in claim.changes {
            let change = queued.change
            // A base version may be filled in later by nobody: from the first try on the content is the same.
            if let known = contents[change.id], known != change { throw Violation("\(change.id) changed its content") }
            contents[change.id] = change
            let needs = [change.record] + (parent(of: change).map { [$0] } ?? [])
            var verdict: Verdict
            if let first = decided[change.id] {
                verdict = first
            } else if let halted {
                verdict = .blocked(by: halted)
            } else if let by = needs.compactMap({ undone[$0] }).first {
                verdict = .blocked(by: by)
            } else {
                verdict = decide(change, units, &random)
            }
            switch verdict {
            case .applied, .merged, .rejected: decided[change.id] = verdict
            case .retry: halted = halted ?? change.id
            case .conflict, .blocked: break
            }
            if !verdict.isDone { undone[change.record] = undone[change.record] ?? change.id }
            // A verdict that gets lost on the way leaves the decision standing.
            if isHostile, random.chance(0.03) { continue }
            results.append(
                ChangeResult(changeID: change.id, verdict: verdict, isClamped: isHostile && random.chance(0.01)))
        }
        if isHostile, random.chance(0.05) { results.reverse() }
        return results
    }

    private func refusedUnits(_ claim: Claim, _ random: inout SeededGenerator) -> [String: String] {
        var refused: [String: String] = [:]
        for queued in claim.changes {
            guard let unit = queued.change.unit, refused[unit] == nil, isHostile, random.chance(0.1) else { continue }
            refused[unit] = queued.change.id
        }
        return refused
    }

    private mutating func decide(
        _ change: Change, _ refusedUnits: [String: String], _ random: inout SeededGenerator
    ) -> Verdict {
        if let unit = change.unit {
            if let by = refusedUnits[unit] { return .refused(by == change.id ? .invalid : .transaction) }
        } else if isHostile {
            switch random.below(40) {
            case 0, 1: return .refused([.invalid, .forbidden, .expired, .idTaken][random.below(4)])
            case 2: return .retry(afterSeconds: random.chance(0.5) ? Double(random.below(100)) : nil)
            case 3 where change.operation != .create:
                return .conflict(record: record(change.record, &random))
            case 4: return .merged(record: record(change.record, &random))
            default: break
            }
        }
        if let parent = parent(of: change), !live.contains(parent), change.unit == nil {
            return .refused(.missingReference, reference: parent.id)
        }
        version += 1
        if change.operation == .delete { live.remove(change.record) } else { live.insert(change.record) }
        return .applied(version: version, overwrote: [:], serverID: nil)
    }

    private mutating func record(_ key: RecordKey, _ random: inout SeededGenerator) -> ServerRecord {
        version += 1
        live.insert(key)
        return ServerRecord(key: key, version: version, fields: ["name": .int(Int64(random.below(5)))])
    }

    private func parent(of change: Change) -> RecordKey? {
        guard case .string(let id)? = change.fields["idBoard"]?.new else { return nil }
        return RecordKey("board", id)
    }
}

extension Verdict {
    fileprivate var isDone: Bool {
        switch self {
        case .applied, .merged: true
        case .conflict, .rejected, .blocked, .retry: false
        }
    }
}
