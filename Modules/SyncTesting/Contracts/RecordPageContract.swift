public import SyncCore

/// What every ``RecordPage`` must keep; a rule's subject makes the page of the records it is given, which are in version order.
public enum RecordPageContract {
    /// Makes a page that nobody has read of.
    public typealias Subject = @Sendable (_ records: [ServerRecord]) async throws -> any RecordPage

    /// What the pages' records are made of.
    public static let entities = [EntitySchema("board", fields: [.text("name"), .integer("stars")])]

    public static let rules: [ContractRule<Subject>] = [
        rule("an empty page has nothing, however often it is asked") { make, expect in
            let page = try await make([])
            try expect.equal(page.count, 0, "count")
            for _ in 0..<2 { try expect.equal(try page.next(maxRecords: 5, maxBytes: 1_000), [], "the page") }
        },
        rule("it is read once, in order, with a slice of at most as many as are wanted") { make, expect in
            let records = boards(7)
            let page = try await make(records)
            var read: [ServerRecord] = []
            for most in [2, 3, 1, 5] {
                let slice = try page.next(maxRecords: most, maxBytes: .max)
                try expect.equal(slice.count, min(most, records.count - read.count), "the slice of \(most)")
                try expect.equal(page.count, records.count, "count while it is read")
                read += slice
            }
            try expect.equal(read, records, "records")
            for _ in 0..<2 { try expect.equal(try page.next(maxRecords: 5, maxBytes: 1_000), [], "behind the end") }
        },
        rule("it stops at about so many bytes") { make, expect in
            let page = try await make(boards(10, name: String(repeating: "x", count: 1_000)))
            let slice = try page.next(maxRecords: 10, maxBytes: 3_500)
            try expect.isTrue((2...5).contains(slice.count), "\(slice.count) records of 1,000 bytes within 3,500")
        },
        rule("it always goes on: one record comes, whatever the limits") { make, expect in
            let page = try await make(boards(3, name: String(repeating: "x", count: 1_000)))
            try expect.equal(try page.next(maxRecords: 10, maxBytes: 1).map(\.version), [1], "past the bytes")
            try expect.equal(try page.next(maxRecords: 10, maxBytes: 0).map(\.version), [2], "of no bytes")
            try expect.equal(try page.next(maxRecords: 0, maxBytes: 1_000).map(\.version), [3], "of no records")
        },
        rule("a record comes as it is: fields, version, and whether it is there") { make, expect in
            let records = [
                ServerRecord(
                    key: RecordKey("board", "b1"), version: 3, fields: ["name": "é\n\"", "stars": .int(.max)]),
                ServerRecord(key: RecordKey("board", "b2"), version: 5, fields: ["name": .null]),
                ServerRecord(key: RecordKey("board", "b3"), version: 8, presence: .deleted),
                ServerRecord(key: RecordKey("board", "b4"), version: 9, presence: .gone),
            ]
            try expect.equal(try await make(records).next(maxRecords: 10, maxBytes: 10_000), records, "records")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (Subject, Expectation) async throws -> Void
    ) -> ContractRule<Subject> { ContractRule("RecordPage", name, body) }

    private static func boards(_ count: Int, name: String = "board") -> [ServerRecord] {
        (1...count).map {
            ServerRecord(key: RecordKey("board", "b\($0)"), version: Int64($0), fields: ["name": .string(name)])
        }
    }
}
