public import SyncCore

/// What every ``ChangeLog`` and ``ChangeRepair`` must keep; run each rule on a fresh, empty one.
public enum ChangeLogContract {
    /// The entities that the rules write; a log on trial must know them.
    public static let entities = [
        EntitySchema("board", fields: [.text("name"), .text("desc"), .integer("count", rule: .sum)]),
        EntitySchema("card", fields: [.parent("idBoard", "board"), .text("name"), .reference("idSeen", "board")]),
    ]

    /// All rules.
    public static let rules: [ContractRule<ChangeLogSubject>] =
        claiming + merging + settling + refusing + repairing + retryingMany + cancelling + behindOthers

    static func rule(
        _ name: String, _ body: @escaping @Sendable (ChangeLogSubject, Expectation) async throws -> Void
    ) -> ContractRule<ChangeLogSubject> {
        ContractRule("ChangeLog", name, body)
    }

    static let claiming: [ContractRule<ChangeLogSubject>] = [
        rule("an empty log gives an empty claim and an empty summary") { subject, expect in
            let claim = try await subject.take()
            try expect.equal(claim.changes, [], "changes")
            try expect.equal(claim.summary.hasWork, false, "work")
            try expect.equal(claim.summary, try await subject.log.summary(), "summary")
        },
        rule("changes are claimed in the order made, once marked") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            try expect.equal(try await subject.log.summary().pending, 3, "pending before")
            let claim = try await subject.take()
            try expect.equal(
                claim.records, [ChangeLogSubject.board, ChangeLogSubject.card, ChangeLogSubject.other], "order")
            try expect.equal(claim.changes.map(\.state), [.uploading, .uploading, .uploading], "states")
            let sequences = claim.changes.map(\.change.sequence)
            try expect.equal(sequences, sequences.sorted(), "sequences")
            try expect.isTrue(Set(sequences).count == 3 && Set(claim.ids).count == 3, "a key or sequence came twice")
            try expect.equal(claim.summary.pending, 0, "pending after")
            try expect.equal(claim.summary.inFlight, 3, "in flight after")
        },
        rule("nothing is claimed without asking") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let claim = try await subject.log.settle(Settlement(), claim: nil)
            try expect.equal(claim.changes, [], "changes")
            try expect.equal(try await subject.log.queued().map(\.state), [.pending], "states")
        },
        rule("a claim survives a kill, and is given again with the same key and content before what is new") {
            subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let first = try await subject.take().changes
            try await subject.write(.update, ChangeLogSubject.board, ["name": "C"])
            let log = try await subject.crash()
            let again = try await log.settle(Settlement(), claim: ClaimLimits()).changes
            try expect.equal(again.map(\.change.fields["name"]?.new), ["B", "C"], "names")
            try expect.equal(again.first?.change, first.first?.change, "the change")
        },
        rule("a claim stops before a limit, but for a first change that passes it alone") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(
                .create, ChangeLogSubject.other, ["name": .string(String(repeating: "x", count: 9_000))])
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
            let two = try await subject.take(ClaimLimits(maxChanges: 2))
            try expect.equal(two.records, [ChangeLogSubject.board, ChangeLogSubject.other], "two at most")
            try await subject.settle([(two.changes[0], .done), (two.changes[1], .unanswered(attempts: 0))])
            let large = try await subject.take(ClaimLimits(maxBytes: 2_000))
            try expect.equal(large.records, [ChangeLogSubject.other], "the large one alone")
        },
        rule("a unit is never divided, and passes a limit alone") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            try await subject.write(
                [
                    LocalWrite(.create, ChangeLogSubject.board, ["name": "A"]),
                    LocalWrite(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"]),
                ], true)
            let first = try await subject.take(ClaimLimits(maxChanges: 2))
            try expect.equal(first.records, [ChangeLogSubject.other], "before the unit")
            let unit = try await subject.settle([(first.changes[0], .done)], claim: ClaimLimits(maxChanges: 1))
            try expect.equal(unit.records, [ChangeLogSubject.board, ChangeLogSubject.card], "the unit")
            try expect.isTrue(
                unit.changes[0].change.unit != nil && unit.changes[0].change.unit == unit.changes[1].change.unit,
                "the members do not name one unit")
        },
        rule("the base version is filled in at the first sending and kept") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let first = try await subject.take().changes
            try expect.equal(first.map(\.change.baseVersion), [5], "base version")
            try await subject.settle([(first[0], .unanswered(attempts: 0))])
            try expect.equal(try await subject.take().changes.map(\.change), first.map(\.change), "sent again")
        },
        rule("a listener is told of what was put into the queue") { subject, expect in
            var notices = subject.log.notices().makeAsyncIterator()
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try expect.isTrue(await notices.next(isolation: #isolation) != nil, "the stream ended")
        },
    ]

    static let merging: [ContractRule<ChangeLogSubject>] = [
        rule("neighbours of one record that were never sent are merged, and each field keeps its stamp") {
            subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let stamp = try await subject.log.queued().first?.change.stamp
            try await subject.write(.update, ChangeLogSubject.board, ["desc": "d"])
            let claim = try await subject.take()
            try expect.equal(claim.changes.count, 1, "changes")
            let change = claim.changes[0].change
            try expect.equal(change.fields["name"]?.old, "A", "old")
            try expect.equal(change.fields["name"]?.new, "B", "new")
            try expect.equal(change.fields["desc"]?.new, "d", "the later field")
            try expect.equal(change.fields["name"]?.stamp ?? change.stamp, stamp, "the earlier field's stamp")
            try expect.isTrue(
                (change.fields["desc"]?.stamp ?? change.stamp) > (stamp ?? .zero), "the later field's stamp")
        },
        rule("a create and its update become one create") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            let changes = try await subject.take().changes.map(\.change)
            try expect.equal(changes.map(\.operation), [.create], "operations")
            try expect.equal(changes.first?.fields["name"]?.new, "B", "name")
        },
        rule("a create and its delete cancel each other, if neither was sent") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.delete, ChangeLogSubject.board)
            let claim = try await subject.take()
            try expect.equal(claim.changes, [], "changes")
            try expect.equal(claim.summary.hasWork, false, "work")
        },
        rule("an update and its delete become one delete") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            try await subject.write(.delete, ChangeLogSubject.board)
            let changes = try await subject.take().changes.map(\.change)
            try expect.equal(changes.map(\.operation), [.delete], "operations")
            try expect.equal(changes.first?.fields, [:], "a delete's fields")
        },
        rule("what was sent and has no verdict is never merged") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let create = try await subject.take().changes
            try await subject.settle([(create[0], .unanswered(attempts: 0))])
            try await subject.write(.delete, ChangeLogSubject.board)
            let changes = try await subject.take().changes.map(\.change)
            try expect.equal(changes.map(\.operation), [.create, .delete], "operations")
            try expect.equal(changes.first, create.first?.change, "the create")
        },
        rule("an edit is not merged across another change") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
            try await subject.write(.update, ChangeLogSubject.board, ["name": "C"])
            try expect.equal(
                try await subject.take().records,
                [ChangeLogSubject.board, ChangeLogSubject.card, ChangeLogSubject.board], "records")
        },
        rule("a create is not merged across what waits and refers to it") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let refused = try await subject.take()
            try await subject.settle([(refused.changes[0], .refused())])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            // Under the one, and of the other.
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x", "idSeen": "b2"])
            try await subject.write(.update, ChangeLogSubject.other, ["name": "C"])
            let claim = try await subject.take()
            try expect.equal(claim.records, [ChangeLogSubject.other, ChangeLogSubject.other], "claimed")
            try await subject.settle(claim.changes.map { ($0, .unanswered(attempts: 0)) })
            _ = try await subject.log.retry(refused.changes[0].change.id)
            try expect.equal(
                try await subject.take().records,
                [ChangeLogSubject.board, ChangeLogSubject.other, ChangeLogSubject.card, ChangeLogSubject.other],
                "the create before what refers to it")
        },
        rule("without the wish nothing is merged") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            try await subject.write(.update, ChangeLogSubject.board, ["name": "C"])
            try expect.equal(try await subject.take(ClaimLimits(merges: false)).changes.count, 2, "changes")
        },
    ]
}
