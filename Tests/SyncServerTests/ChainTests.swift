import SyncCore
import Testing

@testable import SyncServer

/// Records of one entity that refer to each other, one above the other.
@Suite("A chain of records")
struct ChainTests {
    private static let entity = ServerEntity(
        "folder", collection: "folders", parents: [.init(field: "idFolder", entity: "folder")])

    private func change(_ operation: Operation, _ id: String, under parent: String?, at time: UInt64) -> IncomingChange
    {
        let stamp = Stamp(milliseconds: time, counter: 0)
        let parents = parent.map {
            [
                IncomingChange.Field(
                    name: "idFolder", old: nil, new: .string($0), rule: .lastWriter, stamp: stamp)
            ]
        }
        return IncomingChange(
            id: "k\(id)\(time)", device: "a", sequence: Int64(time), record: RecordKey("folder", id),
            operation: operation, stamp: stamp, fields: parents ?? [])
    }

    /// f0 above f1 above f2 and so on.
    private func chain(_ length: Int) throws -> MemorySource {
        let source = try MemorySource(entities: [Self.entity])
        for n in 0..<length {
            var state = RecordState()
            _ = state.apply(change(.create, "f\(n)", under: n == 0 ? nil : "f\(n - 1)", at: 1))
            source.keep(
                StoredRecord(row: Int64(n + 1), root: 1, version: Int64(n + 1), isDead: false, state: state),
                as: RecordKey("folder", "f\(n)"), under: n == 0 ? nil : Int64(n))
        }
        return source
    }

    @Test("I12, DAT-11 a record under 50,000 others is found without as many calls inside each other")
    func deep() throws {
        let source = try chain(50_000)
        let decision = try source.decide(change(.create, "new", under: "f49999", at: 2))
        #expect(!decision.isRejection)
        let made = try #require(source.records[RecordKey("folder", "new")])
        #expect(made.root == 1 && !made.isDead)
    }

    @Test("DAT-11 the top of a chain put under its end: a circle, whose root is the first of it by name")
    func circle() throws {
        let source = try chain(3)
        #expect(try !source.decide(change(.update, "f0", under: "f2", at: 2)).isRejection)
        #expect(try !source.decide(change(.create, "new", under: "f2", at: 3)).isRejection)
        let top = try #require(source.records[RecordKey("folder", "f0")])
        #expect(source.records[RecordKey("folder", "new")]?.root == top.row)
        // One of them dead, all of them are.
        #expect(try !source.decide(change(.delete, "f1", under: nil, at: 4)).isRejection)
        #expect(source.seen.values.allSatisfy { $0 == "dead" }, "\(source.seen)")
    }
}
