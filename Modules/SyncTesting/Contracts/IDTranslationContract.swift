public import SyncCore

/// A map on trial, over ``IDTranslationContract/entities``, and how the suite puts something into it.
public struct IDTranslationSubject: Sendable {
    public var translation: any IDTranslation
    /// The server has given this id to a record that was made here.
    public var name: @Sendable (RecordKey, _ serverID: String) async throws -> Void

    public init(
        translation: any IDTranslation, name: @escaping @Sendable (RecordKey, _ serverID: String) async throws -> Void
    ) {
        self.translation = translation
        self.name = name
    }
}

/// What every ``IDTranslation`` must keep; run each rule on a fresh and empty one.
public enum IDTranslationContract {
    /// Boards and cards, each with a name.
    public static let entities = [
        EntitySchema("board", fields: [.text("name")]), EntitySchema("card", fields: [.text("name")]),
    ]

    public static let rules: [ContractRule<IDTranslationSubject>] = [
        rule("who is not in the map is not in the answer") { subject, expect in
            let (board, card) = (RecordKey("board", "b1"), RecordKey("card", "c1"))
            try expect.equal(try subject.translation.serverIDs(of: [board, card]), [:], "server's ids")
            try expect.equal(try subject.translation.localIDs(of: [board, card]), [:], "local ids")
            try expect.equal(try subject.translation.serverIDs(of: []), [:], "server's ids of none")
            try expect.equal(try subject.translation.localIDs(of: []), [:], "local ids of none")
        },
        rule("a named record is found from both sides, and by its own side's name alone") { subject, expect in
            try await subject.name(RecordKey("board", "b1"), "S1")
            let (here, there) = (RecordKey("board", "b1"), RecordKey("board", "S1"))
            try expect.equal(try subject.translation.serverIDs(of: [here, there]), [here: "S1"], "server's ids")
            try expect.equal(try subject.translation.localIDs(of: [here, there]), [there: "b1"], "local ids")
        },
        rule("one id of two entities is two records") { subject, expect in
            try await subject.name(RecordKey("board", "x"), "S1")
            try await subject.name(RecordKey("card", "x"), "S2")
            let all: Set = [RecordKey("board", "x"), RecordKey("card", "x")]
            try expect.equal(
                try subject.translation.serverIDs(of: all),
                [RecordKey("board", "x"): "S1", RecordKey("card", "x"): "S2"], "server's ids")
            let others: Set = [RecordKey("board", "S2"), RecordKey("card", "S2")]
            try expect.equal(try subject.translation.localIDs(of: others), [RecordKey("card", "S2"): "x"], "local ids")
        },
        rule("many are looked up at once, and only who was asked for comes") { subject, expect in
            for number in 1...30 { try await subject.name(RecordKey("board", "b\(number)"), "S\(number)") }
            let asked = Set((11...40).map { RecordKey("board", "b\($0)") })
            let expected = (11...30).map { (RecordKey("board", "b\($0)"), "S\($0)") }
            try expect.equal(
                try subject.translation.serverIDs(of: asked), Dictionary(uniqueKeysWithValues: expected), "server's ids"
            )
        },
        rule("once the server has named a record, it says so, and goes on saying so") { subject, expect in
            try await subject.name(RecordKey("board", "b1"), "S1")
            for _ in 0..<2 { try expect.equal(try subject.translation.hasServerIDs(), true, "has ids") }
            try await subject.name(RecordKey("board", "b2"), "S2")
            try expect.equal(try subject.translation.hasServerIDs(), true, "has ids")
            try expect.equal(
                try subject.translation.serverIDs(of: [RecordKey("board", "b1")]).values.sorted(), ["S1"], "the first")
        },
        rule("it answers on any thread, many at once") { subject, expect in
            try await subject.name(RecordKey("board", "b1"), "S1")
            let translation = subject.translation
            let found = try await withThrowingTaskGroup(of: String?.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        try translation.localIDs(of: [RecordKey("board", "S1")])[RecordKey("board", "S1")]
                    }
                }
                return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
            }
            try expect.equal(found, ["b1"], "local ids")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (IDTranslationSubject, Expectation) async throws -> Void
    ) -> ContractRule<IDTranslationSubject> { ContractRule("IDTranslation", name, body) }
}
