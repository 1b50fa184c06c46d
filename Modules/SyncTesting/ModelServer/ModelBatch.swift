import SyncCore

/// How the changes of one request are decided together: keys, what stands in the way of what, and units.
struct ModelBatch {
    let decision: ModelDecision
    let requestDevice: String
    let isStrict: Bool
    /// Each reference names by an id that only a create that is done makes.
    let makesIDs: Bool
    let cycleID: String
    /// The roots asked for.
    let scopes: [String: Int64]?
    let ruling: @Sendable (Change) -> ModelServer.Ruling

    /// Why an earlier change of this request was not done.
    private struct Undone {
        var changeID: String
        var record: RecordKey
        var isCreate: Bool
        /// Under strict order everything after it waits.
        var stopsAll: Bool
    }

    func decide(_ changes: [Change], in state: inout ModelState) -> [ChangeResult] {
        var results: [ChangeResult] = []
        var undone: [Undone] = []
        var place = 0
        while place < changes.count {
            let first = changes[place]
            var members = [first]
            if let unit = first.unit {
                while place + members.count < changes.count, changes[place + members.count].unit == unit {
                    members.append(changes[place + members.count])
                }
            }
            place += members.count
            results +=
                first.unit == nil
                ? [single(first, undone: &undone, in: &state)] : unit(members, undone: &undone, in: &state)
        }
        return results
    }

    private func single(_ change: Change, undone: inout [Undone], in state: inout ModelState) -> ChangeResult {
        if let known = remembered(change, in: state) {
            note(change, known, undone: &undone)
            return known
        }
        if let by = blocker(of: change, undone: undone) {
            let result = ChangeResult(changeID: change.id, verdict: .blocked(by: by))
            note(change, result, undone: &undone)
            return result
        }
        let result = decideNew(change, in: &state)
        keep(change, result, in: &state)
        note(change, result, undone: &undone)
        return result
    }

    /// All of a unit, or none of it.
    private func unit(_ changes: [Change], undone: inout [Undone], in state: inout ModelState) -> [ChangeResult] {
        var (trial, within) = (state, undone)
        var known: Set<String> = []
        var results = changes.map { change in
            let result: ChangeResult
            // What was decided before is not decided again, and what it came to binds the others.
            if let before = remembered(change, in: trial) {
                result = before
                known.insert(change.id)
            } else if let by = blocker(of: change, undone: within) {
                result = ChangeResult(changeID: change.id, verdict: .blocked(by: by))
            } else {
                result = decideNew(change, in: &trial)
            }
            note(change, result, undone: &within)
            return result
        }
        // A conflict undoes the unit, so what it tells is what stood before it.
        for place in results.indices {
            guard case .conflict = results[place].verdict else { continue }
            let standing = state.seen(changes[place].record)
            results[place] = ChangeResult(
                changeID: changes[place].id,
                verdict: standing.map { .conflict(record: $0) }
                    ?? .rejected(Rejection(code: .invalid, message: "it checks what its own unit makes")))
        }
        // A rejected member never works, so neither does the unit, whatever the others wait for.
        let rejected = results.contains { if case .rejected = $0.verdict { true } else { false } }
        let stopping = zip(changes, results).first { !$1.verdict.isDecided }
        if rejected {
            for place in results.indices where !known.contains(changes[place].id) {
                if case .rejected = results[place].verdict { continue }
                results[place] = ChangeResult(
                    changeID: changes[place].id,
                    verdict: .rejected(
                        Rejection(code: .transaction, message: "another change of its unit was rejected")))
            }
            for (change, result) in zip(changes, results) where !known.contains(change.id) {
                keep(change, result, in: &state)
            }
        } else if let (stop, first) = stopping {
            let by = if case .blocked(let by) = first.verdict { by } else { stop.id }
            for place in results.indices where results[place].verdict.isDecided && !known.contains(changes[place].id) {
                results[place] = ChangeResult(changeID: changes[place].id, verdict: .blocked(by: by))
            }
            // What the trial noted went with it, and the conflict is told.
            for (change, result) in zip(changes, results) {
                guard case .conflict = result.verdict else { continue }
                noteHeard(change, result.verdict, before: state.records[change.record]?.version, in: &state)
            }
        } else {
            state = trial
            for (change, result) in zip(changes, results) where !known.contains(change.id) {
                keep(change, result, in: &state)
            }
        }
        for (change, result) in zip(changes, results) { note(change, result, undone: &undone) }
        return results
    }

    private func device(of change: Change) -> String { change.deviceID ?? requestDevice }

    /// The outcome kept under the change's key, or why the key cannot stand for this change.
    private func remembered(_ change: Change, in state: ModelState) -> ChangeResult? {
        let device = device(of: change)
        if let outcome = state.keys[ModelState.KeyName(device: device, changeID: change.id)] {
            guard outcome.content == ModelState.Content(change) else {
                return ChangeResult(
                    changeID: change.id,
                    verdict: .rejected(Rejection(code: .keyReused, message: "the key stands for other content")))
            }
            var result = outcome.result
            result.isDuplicate = true
            return result
        }
        if change.sequence <= state.settled[device] ?? 0 {
            return ChangeResult(
                changeID: change.id,
                verdict: .rejected(Rejection(code: .expired, message: "decided once, and not known any more")))
        }
        if let other = state.sequences[device]?[change.sequence], other != change.id {
            return ChangeResult(
                changeID: change.id,
                verdict: .rejected(Rejection(code: .invalid, message: "sequence \(change.sequence) has another key")))
        }
        return nil
    }

    private func decideNew(_ change: Change, in state: inout ModelState) -> ChangeResult {
        switch ruling(change) {
        case .retry(let seconds): return ChangeResult(changeID: change.id, verdict: .retry(afterSeconds: seconds))
        case .reject(let rejection): return ChangeResult(changeID: change.id, verdict: .rejected(rejection))
        case .decide:
            let (counted, isClamped) = decision.clamped(change)
            let before = state.records[change.record]?.version
            let verdict = decision.decide(counted, device: device(of: change), in: &state)
            noteHeard(change, verdict, before: before, in: &state)
            if verdict.isDecided {
                let stamps = [counted.stamp] + counted.fields.values.compactMap(\.stamp)
                state.stamp = stamps.reduce(state.stamp, max)
            }
            // What was refused counts as nothing, at no time.
            let counts =
                switch verdict {
                case .applied, .merged: true
                default: false
                }
            return ChangeResult(changeID: change.id, verdict: verdict, isClamped: isClamped && counts)
        }
    }

    /// Notes up to which version the device has heard of what the record left: up to its base, and to what its pages have come
    /// to, unless it asks for where the record is.
    private func noteHeard(_ change: Change, _ verdict: Verdict, before: Int64?, in state: inout ModelState) {
        switch verdict {
        case .applied(.some, _, _), .merged, .conflict: break
        case .applied(nil, _, _), .rejected, .blocked, .retry: return
        }
        var heard = change.baseVersion ?? 0
        let root = state.records[change.record]?.shown.root
        if let scopes, root.map({ scopes["\($0.entity):\($0.id)"] == nil }) ?? true {
            heard = min(heard, scopes.values.filter { $0 > 0 }.min() ?? heard)
        }
        guard heard < before ?? 0 else { return }
        state.heard[change.record] = min(heard, state.heard[change.record] ?? heard)
    }

    private func keep(_ change: Change, _ result: ChangeResult, in state: inout ModelState) {
        guard result.verdict.isDecided else { return }
        let device = device(of: change)
        state.keys[ModelState.KeyName(device: device, changeID: change.id)] = ModelState.Outcome(
            sequence: change.sequence, content: ModelState.Content(change), result: result)
        state.sequences[device, default: [:]][change.sequence] = change.id
        state.log.append(
            ModelServer.Effect(
                device: device, change: change, verdict: result.verdict, cycleID: cycleID, isClamped: result.isClamped))
    }

    private func note(_ change: Change, _ result: ChangeResult, undone: inout [Undone]) {
        let isDone =
            switch result.verdict {
            case .applied, .merged: true;
            default: false
            }
        guard !isDone else { return }
        let isRetry = if case .retry = result.verdict { true } else { false }
        undone.append(
            Undone(
                changeID: change.id, record: change.record, isCreate: change.operation == .create,
                stopsAll: isStrict && isRetry))
    }

    /// The change that this one must wait for: one of its record, the create of what it names, or any under strict order.
    private func blocker(of change: Change, undone: [Undone]) -> String? {
        for earlier in undone {
            if earlier.stopsAll || earlier.record == change.record { return earlier.changeID }
            guard earlier.isCreate, let entity = decision.schema[change.record.entity] else { continue }
            for field in makesIDs ? entity.fields : entity.parents {
                guard let target = field.reference?.entity, target == earlier.record.entity,
                    change.fields[field.name]?.new == .string(earlier.record.id)
                else { continue }
                return earlier.changeID
            }
        }
        return nil
    }
}
