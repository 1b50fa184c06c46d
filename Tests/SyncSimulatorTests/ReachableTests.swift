import Foundation
import SyncCore
import Testing

@testable import SyncSimulator

/// Which situations a long run must have reached, by what is synced and with which server.
@Suite struct ReachableTests {
    private func unreachable(
        _ entities: [EntitySchema] = SimulationSchema.entities, server: SimulationOptions.Server? = nil
    ) throws -> Set<Situation> {
        var options = try SimulationOptions(folder: "", entities: entities)
        options.server = server
        options.damagesFiles = true
        options.hasDrafts = true
        options.hasConditions = true
        options.waitsForSettled = true
        return Set(Situation.allCases).subtracting(options.reachable)
    }

    @Test("The simulator's own app reaches everything, on the two servers together")
    func ours() throws {
        #expect(try unreachable().isEmpty)
        #expect(
            try unreachable(server: .model) == [
                .serverCrashAtStatement, .serverCrashAfterCommit, .namedOtherwise, .namedLate, .shownBeforeNamed,
            ])
        #expect(try unreachable(server: .reference) == [.expiredCheckpoint])
    }

    @Test("No file is damaged, nothing is held back or waited for, and no network is wanted, unless that is asked for")
    func unasked() throws {
        let options = try SimulationOptions(folder: "")
        #expect(
            Set(Situation.allCases).subtracting(options.reachable)
                == [
                    .damagedFile, .heldBack, .letGo, .keptLocal, .shared, .conditionsHeld, .conditionsEnded,
                    .settledHeard,
                ])
    }

    @Test("Entities without references, checks or fields to lack do not reach what needs them")
    func small() throws {
        let notebook = EntitySchema("notebook", fields: [.text("title")])
        let note = EntitySchema("note", fields: [.parent("idNotebook", "notebook"), .text("text", rule: .check)])
        #expect(try unreachable([notebook, note]) == [.otherReference, .mixedSchemas])
        #expect(
            try unreachable([notebook])
                == [
                    .otherReference, .mixedSchemas, .checkConflict, .tombstoneUnderUnsentChild, .recordLeft,
                    .leftWithUnsent,
                ])
    }

    @Test("Where every record stands under another of its kind, there are no roots to choose")
    func rootless() throws {
        let above = FieldSchema("idAbove", kind: .text, reference: Reference(entity: "folder", isParent: true))
        let missing = try unreachable([EntitySchema("folder", fields: [above, .text("name")])])
        #expect(missing.isSuperset(of: [.scopeAdded, .scopeAddedInFullPass, .scopeDroppedWithUnsent, .recordLeft]))
        #expect(!missing.contains(.tombstoneUnderUnsentChild))
    }

    @Test("A run has missed what it could have reached, and nothing else")
    func missed() throws {
        let totals = RunTotals()
        #expect(totals.missed(of: [.restart, .offline]) == [.restart, .offline])
        #expect(totals.missed(of: []) == [])
    }
}
