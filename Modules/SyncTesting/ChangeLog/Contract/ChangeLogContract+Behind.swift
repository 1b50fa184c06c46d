import SyncCore

/// What is claimed while another claim is under way. A log may claim nothing there: then these rules see that it claims nothing.
extension ChangeLogContract {
    static let behindOthers: [ContractRule<ChangeLogSubject>] = [
        rule("behind a claim under way goes only what its answer cannot change, and nothing twice") { subject, expect in
            try await subject.settledBoard()
            try await subject.write(.update, ChangeLogSubject.board, ["name": "B"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "C"])
            try await subject.write(.update, ChangeLogSubject.board, ["name": "D"])
            let first = try await subject.take(ClaimLimits(maxChanges: 1, merges: false))
            try expect.equal(first.records, [ChangeLogSubject.board], "the first")
            let next = try await subject.log.settle(Settlement(), behind: first, limits: ClaimLimits(merges: false))
            try expect.isTrue(!next.records.contains(ChangeLogSubject.board), "one of a record that is under way")
            try expect.equal(next.changes.map(\.wasSent).contains(true), false, "sent before")
            let states = try await subject.log.queued().map(\.state)
            try expect.equal(states.filter { $0 == .uploading }.count, 1 + next.changes.count, "uploading")
            try await subject.settle((first.changes + next.changes).map { ($0, .done) })
            let left = try await subject.take(ClaimLimits(merges: false))
            try expect.isTrue(Set(left.ids).isDisjoint(with: first.ids + next.ids), "what is done went again")
            try expect.equal(left.changes.count + next.changes.count, 2, "what is left, and what went behind")
        },
        rule("without limits nothing is claimed behind, and what was decided is recorded as ever") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let claim = try await subject.take()
            var rest = claim
            rest.changes.removeFirst()
            let outcome = Settlement.Outcome(changeID: claim.ids[0], kind: .done)
            let schedule = QueueSchedule(failures: 2, notBeforeMilliseconds: 5)
            let told = try await subject.log.settle(
                Settlement(outcomes: [outcome], schedule: schedule), behind: rest, limits: nil)
            try expect.equal(told.changes, [], "claimed")
            let queued = try await subject.log.queued()
            try expect.equal(queued.map(\.change.id), [claim.ids[1]], "what is left")
            try expect.equal(queued.map(\.state), [.uploading], "its state")
            try expect.equal(try await subject.log.summary().schedule, schedule, "schedule")
        },
        rule("nothing goes behind a claim that was sent before, or while something is set aside") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let both = try await subject.take()
            try await subject.settle(both.changes.map { ($0, .unanswered(attempts: 0)) })
            let first = try await subject.take(ClaimLimits(maxChanges: 1))
            let behind = try await subject.log.settle(Settlement(), behind: first, limits: ClaimLimits())
            try expect.equal(behind.changes, [], "what was sent before")
            try await subject.settle([(first.changes[0], .refused())])
            let second = try await subject.take(ClaimLimits(maxChanges: 1))
            try await subject.write(.create, RecordKey("board", "b3"), ["name": "C"])
            let beside = try await subject.log.settle(Settlement(), behind: second, limits: ClaimLimits())
            try expect.equal(beside.changes, [], "beside what was set aside")
        },
        rule("what was claimed and never left is put back: it goes again as it was, also after a kill") {
            subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let first = try await subject.take(ClaimLimits(maxChanges: 1))
            var behind = try await subject.log.settle(Settlement(), behind: first, limits: ClaimLimits())
            // Of a log that claims nothing behind, it is what it claimed next.
            if behind.changes.isEmpty {
                behind = try await subject.settle([(first.changes[0], .done)], claim: ClaimLimits())
            } else {
                try await subject.settle([(first.changes[0], .done)])
            }
            try expect.equal(behind.records, [ChangeLogSubject.other], "claimed")
            try await subject.log.putBack(behind)
            let states = try await subject.log.queued().map(\.state)
            try expect.isTrue(states == [.pending] || states == [.uncertain], "put back: \(states)")
            let log = try await subject.crash()
            let again = try await log.settle(Settlement(), claim: ClaimLimits())
            try expect.equal(again.changes.map(\.change), behind.changes.map(\.change), "sent again")
        },
        rule("putting back what has left the log is harmless") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            let claim = try await subject.take()
            try await subject.settle([(claim.changes[0], .done)])
            try await subject.log.putBack(claim)
            try expect.equal(try await subject.log.summary().hasWork, false, "work")
        },
        rule("looking ahead changes nothing that can be seen, whatever happens then") { subject, expect in
            try await subject.write(.create, ChangeLogSubject.board, ["name": "A"])
            try await subject.write(.create, ChangeLogSubject.other, ["name": "B"])
            let first = try await subject.take(ClaimLimits(maxChanges: 1))
            let (queued, summary) = (try await subject.log.queued(), try await subject.log.summary())
            await subject.log.prepare(after: first, limits: ClaimLimits())
            try expect.equal(try await subject.log.queued(), queued, "queued")
            try expect.equal(try await subject.log.summary(), summary, "summary")
            try await subject.write(.create, ChangeLogSubject.card, ["idBoard": "b1", "name": "x"])
            let next = try await subject.settle([(first.changes[0], .done)], claim: ClaimLimits())
            try expect.equal(next.records, [ChangeLogSubject.other, ChangeLogSubject.card], "claimed")
            await subject.log.prepare(after: next, limits: ClaimLimits())
            let end = try await subject.settle(next.changes.map { ($0, .done) }, claim: ClaimLimits())
            try expect.equal(end.changes, [], "claimed at the end")
            try expect.equal(end.summary.hasWork, false, "work")
        },
    ]
}
