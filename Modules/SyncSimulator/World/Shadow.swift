import SyncCore
import SyncTesting

/// The model server beside the reference server: it is told everything that the other decided, and must come to the same.
///
/// The model keeps all accepted writes and works each value out from the whole set, so this is the check of the values
/// themselves: at the end each field is what the last writer, the sums and the unions of all accepted changes make it.
final class Shadow: @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let model: ModelServer
    private var kept: ModelServer.Backup?
    /// What the reference server ruled out or put off, by key, while one request is told.
    private final class Rulings: @unchecked Sendable {
        // Sendable: as the shadow.
        var byKey: [String: ModelServer.Ruling] = [:]
    }
    private let rulings = Rulings()

    private let makesIDs: Bool

    /// - Parameter makesIDs: whether the reference server makes ids of its own, which the model is not told.
    init(schema: Schema, clock: any WallClock, makesIDs: Bool = false) {
        self.makesIDs = makesIDs
        model = ModelServer(schema: schema, clock: clock, makesIDs: makesIDs)
        model.ruling = { [rulings] in rulings.byKey[$0.id] ?? .decide }
    }

    /// Whether it has a living record.
    func shows(_ record: RecordKey) -> Bool {
        model.records.contains { $0.key == record && $0.presence == .live }
    }

    func backUp() { kept = model.backup() }
    /// - Returns: whether there was anything to restore from.
    func restore() -> Bool {
        guard let kept else { return false }
        model.restore(kept)
        return true
    }

    /// What the reference server has forgotten altogether the model forgets, too.
    func forget(_ isForgotten: (RecordKey) -> Bool) { model.forget(isForgotten) }

    /// Tells the model a request and what the reference server answered.
    /// - Returns: where the two decide differently, in words.
    func differences(_ request: ExchangeRequest, _ results: [ChangeResult]) -> [String] {
        let theirs = Dictionary(
            results.map { ($0.changeID, $0) }, uniquingKeysWith: { first, _ in first })
        rulings.byKey = [:]
        for result in results where !result.isDuplicate {
            switch result.verdict {
            case .rejected(let rejection) where rejection.code == .forbidden:
                rulings.byKey[result.changeID] = .reject(rejection)
            case .retry: rulings.byKey[result.changeID] = .retry(afterSeconds: nil)
            default: break
            }
        }
        var copy = request
        (copy.epoch, copy.dataset, copy.lastSyncVersion, copy.fullPass, copy.limit) = (
            model.epoch, nil, 0, true, 1
        )
        copy.scopes = nil
        let mine: [ChangeResult]
        do { mine = try model.answer(copy).results } catch {
            return ["the model answers with \(error)"]
        }
        return mine.compactMap { result in
            guard let other = theirs[result.changeID] else { return "\(result.changeID) has no verdict" }
            // What was refused stands as it was told, before its records had other names (Decision 477, seed 20505).
            if makesIDs, case .rejected = result.verdict, result.isDuplicate, other.verdict.name == "rejected/keyReused"
            {
                return nil
            }
            // One may forget what the other still knows: then nothing was done again.
            if result.isDuplicate || other.isDuplicate || result.isExpired || other.isExpired {
                let isNew =
                    !(result.isDuplicate || result.isExpired) || !(other.isDuplicate || other.isExpired)
                return isNew && result.verdict.isDecided && other.verdict.isDecided
                    ? "\(result.changeID) is done again by one: \(result.verdict.name), \(other.verdict.name)"
                    : nil
            }
            guard
                result.verdict.name != other.verdict.name
                    || (result.isDone && result.isClamped != other.isClamped)
            else {
                return nil
            }
            let change = request.changes.first { $0.id == result.changeID }
            // Of a unit with several members that never work, one may look at the first alone.
            let names = [result.verdict.name, other.verdict.name]
            if change?.unit != nil, names.contains("rejected/transaction"),
                names.allSatisfy({ $0.hasPrefix("rejected") })
            {
                return nil
            }
            let fields = change.map { "\($0.operation) \($0.record) \($0.fields)" } ?? ""
            return
                "\(result.changeID) is \(result.verdict.name) by the model, and \(other.verdict.name): \(fields)"
        }
    }

    /// Where the records differ, in words; versions are each server's own.
    /// - Parameter rule: of a field whose values were said by whoever wrote it last: a set's elements stand in that one's order, and
    ///   a sum of nothing may be none.
    func differences(
        _ records: [ServerRecord], rule: (_ field: String, _ entity: String) -> MergeRule? = { _, _ in nil }
    ) -> [String] {
        let mine = Dictionary(uniqueKeysWithValues: model.records.map { ($0.key, $0) })
        let theirs = Dictionary(uniqueKeysWithValues: records.map { ($0.key, $0) })
        return Set(mine.keys).union(theirs.keys).sorted().compactMap { key in
            let (a, b) = (mine[key], theirs[key])
            guard a?.presence == .live || b?.presence == .live else { return nil }
            guard a?.presence == b?.presence else { return "\(key) lives on one side only" }
            for name in Set(a?.fields.keys.map(\.self) ?? []).union(b?.fields.keys.map(\.self) ?? [])
                .sorted()
            {
                let (x, y) = (a?.fields[name] ?? .null, b?.fields[name] ?? .null)
                if x.means(y, by: rule(name, key.entity)) { continue }
                if !x.isSame(as: y) {
                    return "\(key).\(name) is \(y), and by all accepted changes \(x)"
                }
            }
            return nil
        }
    }
}

extension FieldValue {
    /// Whether two values are one by a rule that others may write otherwise: none is an empty set (seed 2750 with `--rest`), and the sum
    /// of nothing (seed 17325 with `--rest --capture dirtyFlag`).
    fileprivate func means(_ other: FieldValue, by rule: MergeRule?) -> Bool {
        switch rule {
        case .union: hasSameElements(as: other)
        case .sum: (isNull ? .int(0) : self).isSame(as: other.isNull ? .int(0) : other)
        default: false
        }
    }

    /// Whether two sets have the same elements, in whatever order.
    private func hasSameElements(as other: FieldValue) -> Bool {
        let sets = [self, other].map { if case .array(let elements) = $0 { elements } else { [] as [FieldValue] } }
        guard sets[0].count == sets[1].count else { return false }
        return sets[0].allSatisfy { element in sets[1].contains { $0.isSame(as: element) } }
    }
}

extension ChangeResult {
    /// Its writes count.
    var isDone: Bool {
        switch verdict {
        case .applied, .merged: true
        case .conflict, .rejected, .blocked, .retry: false
        }
    }

    var isKeyReused: Bool {
        if case .rejected(let rejection) = verdict { rejection.code == .keyReused } else { false }
    }

    /// Refused, since what it names is not there.
    var namesNothing: Bool {
        if case .rejected(let rejection) = verdict {
            [.notFound, .missingReference].contains(rejection.code)
        } else {
            false
        }
    }

    /// Done without a version: a delete found nothing.
    var findsNothing: Bool { if case .applied(nil, _, _) = verdict { true } else { false } }

    /// The change that this one waits for.
    var blocker: String? { if case .blocked(let by) = verdict { by } else { nil } }

    var isRetried: Bool { if case .retry = verdict { true } else { false } }

    var isExpired: Bool {
        if case .rejected(let rejection) = verdict { rejection.code == .expired } else { false }
    }
}
