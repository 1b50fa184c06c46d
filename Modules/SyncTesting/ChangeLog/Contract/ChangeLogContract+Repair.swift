import SyncCore

extension ChangeLogContract {
    static let repairing: [ContractRule<ChangeLogSubject>] = [
        rule("retrying puts a successor into the old place and frees what it blocked") { subject, expect in
            let create = try await refusedBoard(subject)
            let key = try await subject.log.retry(create)
            try expect.isTrue(key != create, "the refused key would be sent again")
            try expect.equal(try await subject.log.failures(), [], "failures")
            let claim = try await subject.take(ClaimLimits(merges: false))
            try expect.equal(
                claim.records,
                [ChangeLogSubject.board, ChangeLogSubject.other, ChangeLogSubject.card, ChangeLogSubject.card], "order")
            try expect.equal(claim.changes.first?.change.id, key, "key")
            try expect.equal(claim.changes.first?.change.fields["name"]?.new, "A", "payload")
        },
        rule("discarding takes with it what needs it, as listed before") { subject, expect in
            let create = try await refusedBoard(subject)
            let dependants = try await subject.log.dependants(of: create)
            try expect.equal(dependants.count, 2, "dependants")
            let several = try await subject.log.dependants(of: [dependants[1], create])
            try expect.equal(several, [[], dependants], "dependants of several")
            let gone = try await subject.log.discard(create)
            try expect.equal(Set(gone), Set(dependants + [create]), "discarded")
            let summary = try await subject.log.summary()
            try expect.equal([summary.failed, summary.blocked, summary.pending], [0, 0, 1], "counts")
        },
        rule("discarding leaves what refers to the record, and is not under it") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let create = try await subject.take().changes[0]
            try await subject.settle([(create, .refused())])
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x", "idSeen": "b2"])
            try expect.equal(try await subject.take().changes, [], "while the other board may come")
            try expect.equal(try await subject.log.dependants(of: create.change.id), [], "dependants")
            try expect.equal(try await subject.log.discard(create.change.id), [create.change.id], "discarded")
            let claim = try await subject.take()
            try expect.equal(claim.records, [ChangeLogSubject.card], "left")
            try expect.equal(claim.changes.first?.change.fields["idSeen"]?.new, "b2", "what it refers to")
        },
        rule("discarding a refused update takes nothing else") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let first = try await subject.take().changes[0]
            try await subject.write(.update, ChangeLogSubject.board, ["desc": "d"])
            try await subject.settle([(first, .refused())])
            try expect.equal(try await subject.log.dependants(of: first.change.id), [], "dependants")
            try expect.equal(try await subject.log.discard(first.change.id), [first.change.id], "discarded")
            try expect.equal(try await subject.log.summary().pending, 1, "pending")
        },
        rule("what was set aside survives a kill") { subject, expect in
            let create = try await refusedBoard(subject)
            let log = try await subject.crash()
            try expect.equal(try await log.failures().map(\.queued.change.id), [create], "failures")
            try expect.equal(try await log.summary().blocked, 2, "blocked")
        },
        rule("what is not there cannot be repaired") { subject, expect in
            for attempt in [0, 1, 2] {
                do throws(StoreFailure) {
                    switch attempt {
                    case 0: _ = try await subject.log.retry("nowhere")
                    case 1: _ = try await subject.log.discard("nowhere")
                    default: _ = try await subject.log.cancel("nowhere")
                    }
                } catch {
                    try expect.equal(error.kind, .notFound, "kind")
                    continue
                }
                try expect.isTrue(false, "nothing was thrown")
            }
        },
    ]

    static let retryingMany: [ContractRule<ChangeLogSubject>] = [
        rule("several are retried one after another; what is not set aside is told, and takes nothing with it") {
            subject, expect in
            let create = try await refusedBoard(subject)
            let other = try await subject.take()
            try await subject.settle([(other.changes[0], .refused())])
            let keys = [other.ids[0], "nowhere", create, other.ids[0]]
            let outcomes = try await subject.log.retry(keys)
            guard outcomes.count == 4, case .retried(let second) = outcomes[0], case .retried(let first) = outcomes[2]
            else { return try expect.isTrue(false, "two were to be retried, got \(outcomes)") }
            try expect.equal([outcomes[1], outcomes[3]], [.notFailed, .notFailed], "what is not set aside")
            try expect.equal(try await subject.log.failures(), [], "failures")
            let claim = try await subject.take(ClaimLimits(merges: false))
            try expect.equal(
                claim.records,
                [ChangeLogSubject.board, ChangeLogSubject.other, ChangeLogSubject.card, ChangeLogSubject.card], "order")
            try expect.equal(Array(claim.ids.prefix(2)), [first, second], "keys")
            try expect.isTrue(
                claim.changes[1].change.sequence < claim.changes[0].change.sequence, "not in the order given")
        },
        rule("of several that are retried each keeps its key that never got a verdict") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let claim = try await subject.take()
            let reason = SetAsideReason(code: "tooManyAttempts", message: "no")
            try await subject.settle([
                (claim.changes[0], .setAside(reason, staysUncertain: true)), (claim.changes[1], .refused()),
            ])
            let outcomes = try await subject.log.retry([claim.ids[0], claim.ids[1], claim.ids[0]])
            try expect.equal(outcomes.first, .retried(claim.ids[0]), "the uncertain one")
            try expect.equal(outcomes.last, .notFailed, "the second time")
            try expect.isTrue(!outcomes.contains(.retried(claim.ids[1])), "the refused key would be sent again")
            try expect.equal(
                try await subject.take().records, [ChangeLogSubject.board, ChangeLogSubject.other], "records")
        },
        rule("a unit whose members are retried with each other goes whole") { subject, expect in
            try await subject.write(
                [
                    LocalWrite(.create, ChangeLogSubject.board, ["name": "A"]),
                    LocalWrite(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"]),
                ], true)
            let claim = try await subject.take()
            try await subject.settle([(claim.changes[0], .refused()), (claim.changes[1], .refused("transaction"))])
            _ = try await subject.log.retry(claim.ids)
            try expect.equal(try await subject.log.failures(), [], "failures")
            let again = try await subject.take()
            try expect.equal(again.records, claim.records, "records")
            try expect.isTrue(Set(again.ids).isDisjoint(with: claim.ids), "a refused key would be sent again")
        },
        rule("several that were retried survive a kill; of none nothing comes") { subject, expect in
            let create = try await refusedBoard(subject)
            try expect.equal(try await subject.log.retry([]), [], "of none")
            let outcomes = try await subject.log.retry([create])
            let log = try await subject.crash()
            try expect.equal(try await log.failures(), [], "failures")
            try expect.equal(
                try await log.queued().first.map { RetryOutcome.retried($0.change.id) }, outcomes.first, "key")
        },
    ]

    static let cancelling: [ContractRule<ChangeLogSubject>] = [
        rule("what was never sent is cancelled with what needs it") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let keys = try await subject.log.queued().map(\.change.id)
            let outcome = try await subject.log.cancel(keys[0])
            guard case .cancelled(let gone) = outcome else {
                return try expect.isTrue(false, "expected a cancellation, got \(outcome)")
            }
            try expect.equal(Set(gone), Set(keys.prefix(2)), "cancelled")
            try expect.equal(try await subject.take().records, [ChangeLogSubject.other], "left")
        },
        rule("what is on its way cannot be cancelled") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let claim = try await subject.take()
            try expect.equal(try await subject.log.cancel(claim.changes[0].change.id), .tooLate, "outcome")
            try expect.equal(try await subject.log.queued().map(\.state), [.uploading], "states")
        },
        rule("an uncertain update is followed by its inverse, with a key of its own") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let sent = try await subject.take().changes[0]
            try await subject.settle([(sent, .unanswered(attempts: 0))])
            let outcome = try await subject.log.cancel(sent.change.id)
            let again = try await subject.take().changes.map(\.change)
            try expect.equal(again.count, 2, "changes")
            try expect.equal(again.first, sent.change, "the uncertain one")
            try expect.equal(outcome, .inverse(again.last?.id ?? ""), "outcome")
            try expect.equal(again.last?.fields["name"]?.new, "A", "inverse")
            try expect.isTrue(again.last?.id != sent.change.id, "the key is the old one")
        },
        rule("an uncertain create is followed by a delete") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let sent = try await subject.take().changes[0]
            try await subject.settle([(sent, .unanswered(attempts: 0))])
            _ = try await subject.log.cancel(sent.change.id)
            try expect.equal(
                try await subject.take().changes.map(\.change.operation), [.create, .delete], "operations")
        },
    ]
}
