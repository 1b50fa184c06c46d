public import SyncCore

/// A handler on trial, with what may come to it; an app runs its own.
public struct SyncableSubject: Sendable {
    public var handler: any Syncable
    /// Changes of its entity, as the queue would hand them out; at least one.
    public var changes: [Change]
    /// Records of its entity, as the server would send them.
    public var records: [ServerRecord]

    public init(handler: any Syncable, changes: [Change], records: [ServerRecord]) {
        self.handler = handler
        self.changes = changes
        self.records = records
    }
}

/// What every ``Syncable`` must keep; run each rule on a fresh one.
public enum SyncableContract {
    public static let rules: [ContractRule<SyncableSubject>] = [
        rule("it is of one entity, always the same") { subject, expect in
            let schema = subject.handler.schema
            try expect.isTrue(!schema.name.isEmpty, "the entity has no name")
            for _ in 0..<3 { try expect.equal(subject.handler.schema, schema, "schema") }
        },
        rule("what it finds is of its entity, with ids that can be sent and declared fields that say something") {
            subject, expect in
            let schema = subject.handler.schema
            for found in try await subject.handler.collectDirty() {
                try expect.equal(found.record.entity, schema.name, "entity")
                try expect.isTrue(RecordKey.isValidID(found.record.id), "\(found.record.id) is no id")
                for field in found.fields.keys {
                    try expect.isTrue(schema.field(field) != nil, "\(field) is not declared")
                }
                if found.operation == .update { try expect.isTrue(!found.fields.isEmpty, "an update of nothing") }
                if found.operation == .delete { try expect.equal(found.fields, [:], "a delete's fields") }
            }
        },
        rule(
            "what goes out is the change that went in: its key, place, record, operation and time; and always the same"
        ) {
            subject, expect in
            for change in subject.changes {
                let payload = try subject.handler.buildPayload(change)
                try expect.equal(payload.id, change.id, "key")
                try expect.equal(payload.sequence, change.sequence, "sequence")
                try expect.equal(payload.record, change.record, "record")
                try expect.equal(payload.operation, change.operation, "operation")
                try expect.equal(payload.stamp, change.stamp, "stamp")
                try expect.equal(try subject.handler.buildPayload(change), payload, "made again")
            }
        },
        rule("a record that comes again is no trouble: a crash may come between a step and the note of it") {
            subject, expect in
            for record in subject.records + subject.records { try await subject.handler.applyResponse(record) }
        },
        rule("a change may be told to be decided twice, or with none beside it; then it is not found any more") {
            subject, expect in
            let found = try await subject.handler.collectDirty()
            try await subject.handler.markSynced([])
            for _ in 0..<2 { try await subject.handler.markSynced(subject.changes) }
            let decided = Set(subject.changes.map(\.record))
            let left = try await subject.handler.collectDirty()
            let again = left.map(\.record).filter { decided.contains($0) }
            try expect.equal(again, [], "found again")
            try expect.isTrue(left.count <= found.count, "more was found than before")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (SyncableSubject, Expectation) async throws -> Void
    ) -> ContractRule<SyncableSubject> { ContractRule("Syncable", name, body) }
}

/// What every ``Model`` must keep; a rule's subject is some values of the type that differ from each other, at least two.
public enum ModelContract<Record: Model> {
    public static var rules: [ContractRule<[Record]>] {
        [
            ContractRule("Model", "it has an id, and declared fields only") { (models: [Record], expect) in
                for model in models {
                    try expect.isTrue(RecordKey.isValidID(model.id), "\(model.id) is no id")
                    for field in model.fields.keys {
                        try expect.isTrue(Record.schema.field(field) != nil, "\(field) is not declared")
                    }
                }
            },
            ContractRule("Model", "made of its id and fields it is the same again") { (models: [Record], expect) in
                for model in models {
                    let again = try Record(id: model.id, fields: model.fields)
                    try expect.equal(again.id, model.id, "id")
                    try expect.equal(again.difference(from: model), [:], "difference")
                    try expect.equal(model.difference(from: again), [:], "difference the other way")
                }
            },
            ContractRule("Model", "the difference, applied to the one, makes the other") { (models: [Record], expect) in
                for (one, other) in zip(models, models.dropFirst() + models.prefix(1)) {
                    let made = try one.applying(other.difference(from: one))
                    try expect.equal(made.difference(from: other), [:], "what is left")
                    try expect.equal(made.id, one.id, "id")
                }
            },
        ]
    }
}
