import SyncCore

extension ChangeLogContract {
    static let settling: [ContractRule<ChangeLogSubject>] = [
        rule("what is applied leaves, and the next is claimed in the same call") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let first = try await subject.take(ClaimLimits(maxChanges: 1))
            let next = try await subject.settle([(first.changes[0], .done)], claim: ClaimLimits(maxChanges: 1))
            try expect.equal(next.records, [ChangeLogSubject.other], "the next")
            try expect.isTrue(next.settled >= first.changes[0].change.sequence, "settled did not rise")
            try expect.isTrue(next.settled < next.changes[0].change.sequence, "settled passed what is undecided")
            let end = try await subject.settle([(next.changes[0], .done)])
            try expect.equal(end.summary.hasWork, false, "work at the end")
            try expect.isTrue(end.settled >= next.changes[0].change.sequence, "settled at the end")
        },
        rule("an outcome about a change that has left is ignored") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let claim = try await subject.take()
            try await subject.settle([(claim.changes[0], .done)])
            try await subject.settle([(claim.changes[0], .refused())])
            try expect.equal(try await subject.log.failures(), [], "failures")
            try expect.equal(try await subject.log.summary().hasWork, false, "work")
        },
        rule("what got no verdict stays, with its attempts, and goes again with the same key and content") {
            subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let claim = try await subject.take()
            try await subject.settle([(claim.changes[0], .unanswered(attempts: 3))])
            try expect.equal(try await subject.log.queued().map(\.state), [.uncertain], "states")
            let again = try await subject.take().changes
            try expect.equal(again.map(\.change), claim.changes.map(\.change), "changes")
            try expect.equal(again.map(\.attempts), [3], "attempts")
        },
        rule("a conflict puts a successor with a new key into the same place") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "C"])
            let claim = try await subject.take()
            let old = claim.changes[0].change
            let record = ServerRecord(key: ChangeLogSubject.board, version: 9, fields: ["name": "X"])
            let delta = FieldDelta(old: "X", new: "B")
            let next = try await subject.settle(
                [
                    (claim.changes[0], .conflict(record, successor: ["name": delta])),
                    (claim.changes[1], .unanswered(attempts: 0)),
                ],
                claim: ClaimLimits())
            try expect.equal(next.records, [ChangeLogSubject.board, ChangeLogSubject.other], "order")
            let change = next.changes[0].change
            try expect.isTrue(change.id != old.id, "the key is the old one")
            try expect.isTrue(change.sequence > claim.changes[1].change.sequence, "the sequence is not new")
            try expect.equal(change.stamp, old.stamp, "stamp")
            try expect.equal(change.baseVersion, 9, "base version")
            try expect.equal(change.fields["name"]?.old, "X", "old")
            try expect.equal(change.fields["name"]?.new, "B", "new")
            try expect.equal(next.changes[0].conflicts, 1, "conflicts")
        },
        rule("a conflict with nothing left to say ends the change") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let claim = try await subject.take()
            let record = ServerRecord(key: ChangeLogSubject.board, version: 9, fields: ["name": "B"])
            let end = try await subject.settle([(claim.changes[0], .conflict(record, successor: nil))])
            try expect.equal(end.summary.hasWork, false, "work")
        },
        rule("a merged change leaves") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let claim = try await subject.take()
            let record = ServerRecord(key: ChangeLogSubject.board, version: 9, fields: ["name": "X"])
            let end = try await subject.settle([(claim.changes[0], .merged(record))])
            try expect.equal(end.summary.hasWork, false, "work")
            try await subject.write(.update, ChangeLogSubject.board, ["name": "C"])
            try expect.equal(try await subject.take().changes.map(\.change.baseVersion), [9], "base version")
        },
        rule("the schedule is kept, and survives a kill") { subject, expect in
            let schedule = QueueSchedule(
                failures: 3, notBeforeMilliseconds: 1_795_248_001_000, serverNotBeforeMilliseconds: 1_795_248_002_000,
                changesNotBeforeMilliseconds: 1_795_248_003_000, needsCredentials: true, batchLimit: 4, cause: "why")
            _ = try await subject.log.settle(Settlement(schedule: schedule), claim: nil)
            try expect.equal(try await subject.log.summary().schedule, schedule, "schedule")
            _ = try await subject.log.settle(Settlement(), claim: nil)
            try expect.equal(try await subject.crash().summary().schedule, schedule, "schedule after a kill")
        },
    ]

    static let refusing: [ContractRule<ChangeLogSubject>] = [
        rule("a refused update is kept with its reason and payload, and frees what came after it") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let first = try await subject.take().changes[0]
            try await subject.write(.update, ChangeLogSubject.board, ["name": "C"])
            let next = try await subject.settle([(first, .refused())], claim: ClaimLimits())
            try expect.equal(next.changes.map { $0.change.fields["name"]?.new }, ["C"], "what goes next")
            let failures = try await subject.log.failures()
            try expect.equal(failures.map(\.queued.change.id), [first.change.id], "failures")
            try expect.equal(failures.first?.queued.change.fields["name"]?.new, "B", "payload")
            try expect.equal(failures.first?.reason.code, "invalid", "reason")
            try expect.equal(failures.first?.isUncertain, false, "uncertain")
            try expect.equal(next.summary.failed, 1, "count")
            try expect.isTrue(next.settled >= first.change.sequence, "settled waits for what is decided")
        },
        rule("a refused create blocks what needs it, whenever it was made") { subject, expect in
            let create = try await refusedBoard(subject)
            try await subject.write(.update, ChangeLogSubject.card, ["name": "z"])
            let queued = try await subject.log.queued()
            try expect.equal(queued.map(\.state), [.pending, .blocked, .blocked, .blocked], "states")
            try expect.equal(Set(queued.dropFirst().compactMap(\.blockedBy)), [create], "blocked by")
            try expect.equal(try await subject.log.summary().blocked, 3, "count")
            try expect.equal(try await subject.take().records, [ChangeLogSubject.other], "claim")
            try expect.equal(
                try await subject.log.dependants(of: create), queued.dropFirst().map(\.change.id), "dependants")
        },
        rule("the last attempt is counted with the change that it sets aside") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let claim = try await subject.take()
            let reason = SetAsideReason(code: "tooManyAttempts", message: "no")
            try await subject.settle([
                (claim.changes[0], .unanswered(attempts: 10)),
                (claim.changes[0], .setAside(reason, staysUncertain: true)),
            ])
            try expect.equal(try await subject.log.failures().map(\.queued.attempts), [10], "attempts")
            try expect.equal(try await subject.log.summary().hasWork, false, "work")
        },
        rule("a suspect that was set aside keeps settled below it, and its key when it is tried again") {
            subject, expect in
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let claim = try await subject.take()
            let reason = SetAsideReason(code: "tooManyAttempts", message: "no")
            try await subject.settle([(claim.changes[0], .setAside(reason, staysUncertain: true))])
            try expect.equal(try await subject.log.failures().map(\.isUncertain), [true], "uncertain")
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let next = try await subject.take()
            let end = try await subject.settle([(next.changes[0], .done)])
            try expect.isTrue(end.settled < claim.changes[0].change.sequence, "settled passed it")
            let id = claim.changes[0].change.id
            try expect.equal(try await subject.log.retry(id), id, "key")
            let again = try await subject.take().changes
            try expect.equal(again.map(\.change), claim.changes.map(\.change), "the change")
            try expect.equal(again.map(\.attempts), [0], "attempts")
        },
        rule("a missing reference to a record whose create waits here blocks, and fails nothing") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
            let claim = try await subject.take()
            let end = try await subject.settle([
                (claim.changes[0], .refused()), (claim.changes[1], .refused("missingReference", reference: "b1")),
            ])
            try expect.equal(
                try await subject.log.failures().map(\.queued.change.record), [ChangeLogSubject.board], "failures")
            try expect.equal(end.summary.blocked, 1, "blocked")
            let waiting = try await subject.log.queued()
            try expect.equal(waiting.first?.blockedBy, claim.changes[0].change.id, "blocked by")
            try expect.isTrue(
                waiting.first?.change.id != claim.changes[1].change.id, "a refused key would be sent again")
        },
        rule("an expired change leaves without a failure") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let claim = try await subject.take()
            let end = try await subject.settle([(claim.changes[0], .refused("expired"))])
            try expect.equal(end.summary.failed, 0, "failed")
            try expect.equal(end.summary.hasWork, false, "work")
        },
    ]

    /// A board whose create was refused, with an update, a card in it, and another board that has nothing to do with it.
    /// - Returns: the refused create's key.
    static func refusedBoard(_ subject: ChangeLogSubject) async throws -> String {
        try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
        let claim = try await subject.take()
        try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
        try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
        try await subject.write(.update, ChangeLogSubject.card, ["name": "y"])
        try await subject.settle([(claim.changes[0], .refused())])
        return claim.changes[0].change.id
    }
}
