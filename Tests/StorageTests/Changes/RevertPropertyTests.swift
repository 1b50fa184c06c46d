import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// Random edits, claims, verdicts and repairs of one record, against a model that knows only: base, and what remains.
@Suite struct RevertPropertyTests {
    /// What a change does, kept apart from the store.
    struct Edit {
        var key: String
        var name: FieldValue?
        var votes: Int64?
        var isSent = false
        /// Refused, and shown on.
        var isKept = false
    }

    struct Model {
        var refusal: RefusalRule
        var name: FieldValue = "Card"
        var votes: Int64 = 1
        var version: Int64 = 3
        var edits: [Edit] = []

        var shownName: FieldValue { edits.reduce(name) { $1.name ?? $0 } }
        var shownVotes: Int64 { edits.reduce(votes) { $0 + ($1.votes ?? 0) } }

        @discardableResult
        mutating func take(_ key: String) -> Edit? {
            guard let index = edits.firstIndex(where: { $0.key == key }) else { return nil }
            return edits.remove(at: index)
        }

        /// The server did it as it was sent.
        mutating func accept(_ key: String) {
            guard let edit = take(key) else { return }
            votes += edit.votes ?? 0
            guard let name = edit.name else { return }
            self.name = name
            // What is older than a write that the server took does not show above it.
            for index in edits.indices where edits[index].isKept { edits[index].name = nil }
        }
    }

    @Test(
        "what remains of refused, cancelled and discarded edits is base plus the remaining ones, exactly",
        arguments: 0..<16, RefusalRule.allCases)
    func revert(seed: UInt64, refusal: RefusalRule) async throws {
        var chance = SeededGenerator(seed: seed)
        let fixture = try Fixture(boardSchema(refusal: refusal), seed: Int64(seed) + 1)
        try await fixture.applyBoard()
        var model = Model(refusal: refusal)
        for step in 0..<80 {
            switch Int.random(in: 0..<10, using: &chance) {
            case 0...4:
                let votes = Bool.random(using: &chance) ? Int64.random(in: 1...9, using: &chance) : nil
                let name: FieldValue? = votes == nil || Bool.random(using: &chance) ? .string("n\(step)") : nil
                try fixture.sql(
                    "UPDATE card SET name = coalesce(?, name), votes = votes + ? WHERE id = 'c1'",
                    [name?.text, votes ?? 0])
                let key = try #require(try fixture.changes().last).id
                model.edits.append(Edit(key: key, name: name, votes: votes))
            case 5, 6:
                try await verdict(fixture, &model, &chance)
            case 7:
                guard let edit = model.edits.randomElement(using: &chance), !edit.isSent else { continue }
                #expect(try await fixture.store.cancel(edit.key) == .cancelled([edit.key]))
                _ = model.take(edit.key)
            case 8:
                model.version += 10
                model.name = .string("server\(step)")
                model.votes = Int64.random(in: 100...200, using: &chance)
                try await fixture.apply(
                    record(
                        "card", "c1", model.version, ["name": model.name, "idList": "l1", "votes": .int(model.votes)]))
            default:
                guard let failure = try await fixture.store.failures().randomElement(using: &chance) else { continue }
                _ = try await fixture.store.discard(failure.queued.change.id)
                _ = model.take(failure.queued.change.id)
            }
            try expect(fixture, model, "seed \(seed), step \(step)")
        }
        for failure in try await fixture.store.failures() {
            _ = try await fixture.store.discard(failure.queued.change.id)
            _ = model.take(failure.queued.change.id)
        }
        try await fixture.drain(from: model.version + 100)
        try expect(fixture, model, "seed \(seed), drained")
        #expect(try await fixture.store.queued().isEmpty)
        #expect(try fixture.int("SELECT count(*) FROM sync_record WHERE base IS NOT NULL") == 0)
        #expect(try fixture.int("SELECT count(*) FROM sync_failure") == 0)
    }

    /// Sends the next one and decides it in one of the ways there are.
    private func verdict(_ fixture: Fixture, _ model: inout Model, _ chance: inout SeededGenerator) async throws {
        let claim = try await fixture.claim(ClaimLimits(maxChanges: 1, merges: false))
        guard let queued = claim.changes.first else { return }
        let key = queued.change.id
        let index = try #require(model.edits.firstIndex { $0.key == key })
        model.edits[index].isSent = true
        switch Int.random(in: 0..<4, using: &chance) {
        case 0:
            try await fixture.settle((key, .unanswered))
        case 1:
            if model.refusal == .keep { model.edits[index].isKept = true } else { _ = model.take(key) }
            try await fixture.settle((key, .refused()))
        case 2:
            model.version += 1
            model.accept(key)
            try await fixture.settle((key, .applied(model.version)))
        default:
            model.version += 1
            model.accept(key)
            model.name = .string("merged\(model.version)")
            try await fixture.settle(
                (key, .merged(record("card", "c1", model.version, ["name": model.name, "votes": .int(model.votes)]))))
        }
    }

    private func expect(_ fixture: Fixture, _ model: Model, _ place: Comment) throws {
        #expect(try fixture.card("name") == model.shownName.text, place)
        #expect(try fixture.card("votes") == String(model.shownVotes), place)
        #expect(
            try fixture.queued() == fixture.int("SELECT count(*) FROM sync_change"), place)
    }
}
