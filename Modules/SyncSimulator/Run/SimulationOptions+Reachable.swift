import SyncCore

extension SimulationOptions {
    /// The situations that seeds can reach with these entities and this server: a long run must have reached these.
    public var reachable: Set<Situation> { Set(Situation.allCases.filter(canReach)) }

    /// What takes a cycle that carries changes, or two processes with one file.
    private static let withoutLoop: Set<Situation> = [
        .secondProcess, .leaseTakenOver, .requestBeforeSettled, .claimPutBack,
    ]

    /// What takes verdicts of several changes, ids of the server's, or tombstones that it forgets.
    private static let withoutREST: Set<Situation> = [
        .missingVerdict, .clampedStamp, .blockedByRefusal, .blockedByRetry, .retryVerdict, .unitSent, .namedOtherwise,
        .namedLate, .shownBeforeNamed, .tombstonesPruned, .expiredCheckpoint,
    ]

    private func canReach(_ situation: Situation) -> Bool {
        if sendsSingly, Self.withoutLoop.contains(situation) { return false }
        if sendsByREST, Self.withoutREST.contains(situation) { return false }
        return switch situation {
        case .otherReference: hasField { $0.reference?.isParent == false }
        case .checkConflict: hasField { $0.rule == .check }
        // Under a dirty flag nothing is said of units.
        case .unitSent: schema.entities.allSatisfy { $0.capture != .dirtyFlag }
        case .tombstoneUnderUnsentChild: hasField { $0.reference?.isParent == true }
        // An app that is a version behind lacks an entity or a field, where the entities are such that it can.
        case .mixedSchemas: older != schema
        case .scopeAdded, .scopeAddedInFullPass, .scopeDroppedWithUnsent: schema.entities.contains(where: isRoot)
        // What leaves stood directly under a root, or under what did.
        case .recordLeft, .leftWithUnsent:
            hasField { field in
                field.reference.map { $0.isParent && schema[$0.entity].map(isRoot) ?? false } ?? false
            }
        // The model server has no process.
        case .serverCrashAtStatement, .serverCrashAfterCommit: server != .model
        // Nor does it make ids.
        case .namedOtherwise, .namedLate, .shownBeforeNamed: server != .model
        case .damagedFile: damagesFiles
        case .heldBack, .letGo, .keptLocal, .shared: hasDrafts
        case .conditionsHeld, .conditionsEnded: hasConditions
        case .settledHeard: waitsForSettled
        // The reference server keeps its tombstones for longer than a seed.
        case .expiredCheckpoint: server != .reference
        default: true
        }
    }

    private func hasField(_ condition: (FieldSchema) -> Bool) -> Bool {
        schema.entities.contains { $0.fields.contains(where: condition) }
    }

    private func isRoot(_ entity: EntitySchema) -> Bool { entity.parents.isEmpty }
}
