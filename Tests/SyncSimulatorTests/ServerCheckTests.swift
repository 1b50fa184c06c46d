import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// The checks that hold the server's records against the devices, and against what was accepted.
@Suite struct ServerCheckTests {
    private let board = RecordKey("board", "b")
    private func schema() throws -> Schema { try Schema(SimulationSchema.entities) }

    @Test(
        "I7 what one side has and the other has not, or otherwise, is found; the dead and what nobody declared are not looked for"
    )
    func convergence() throws {
        let schema = try schema()
        func found(_ rows: [RecordKey: [String: FieldValue]], _ server: ServerRecord...) -> [String] {
            Convergence.differences(rows, server, schema: schema)
        }
        let live = ServerRecord(key: board, version: 3, fields: ["name": "A", "color": "red"])
        let dead = ServerRecord(key: board, version: 4, presence: .deleted, fields: ["name": "A"])
        #expect(found([board: ["name": "A"]], live).isEmpty)
        #expect(found([:], dead).isEmpty)
        #expect(found([board: ["name": "B"]], live).count == 1)
        #expect(found([board: [:]], live).count == 1)
        #expect(found([board: ["name": "A", "closed": true]], live).count == 1)
        #expect(found([:], live) == ["board b is on the server only"])
        #expect(found([board: ["name": "A"]], dead) == ["board b is on the device only"])
    }

    @Test("DAT-03 values: a field that is not what the greatest write says is found, in whatever order the writes came")
    func lastWriters() {
        func effect(_ change: Change, by device: String, _ verdict: Verdict? = nil, isClamped: Bool = false)
            -> ModelServer.Effect
        {
            ModelServer.Effect(
                device: device, change: change, verdict: verdict ?? .applied(version: 1, overwrote: [:], serverID: nil),
                cycleID: "c", isClamped: isClamped)
        }
        func write(_ sequence: Int64, _ name: String, at stamp: UInt64, rule: MergeRule = .lastWriter) -> Change {
            change(sequence, at: stamp, fields: ["name": FieldDelta(old: nil, new: .string(name), rule: rule)])
        }
        func shows(_ name: String, _ effects: ModelServer.Effect...) -> Bool {
            LastWriters(effects).differences([ServerRecord(key: board, version: 1, fields: ["name": .string(name)])])
                .isEmpty
        }
        let (early, late) = (effect(write(2, "early", at: 1), by: "a"), effect(write(1, "late", at: 2), by: "a"))
        #expect(shows("late", early, late))
        #expect(shows("late", late, early))
        #expect(!shows("early", late, early))
        // Equal stamps: the device decides, then the sequence.
        #expect(!shows("early", early, effect(write(1, "b's", at: 1), by: "b")))
        #expect(!shows("early", early, effect(write(3, "third", at: 1), by: "a")))
        // Over an older delete, whenever that comes, a create writes null to what it does not name (seeds 88928 and 5408).
        let making = effect(change(4, .create, at: 2, fields: ["closed": FieldDelta(old: nil, new: true)]), by: "b")
        let (gone, later) = (effect(change(3, .delete, at: 0), by: "a"), effect(write(5, "later", at: 3), by: "b"))
        func isNull(_ effects: ModelServer.Effect...) -> Bool {
            LastWriters(effects).differences([ServerRecord(key: board, version: 1, fields: ["closed": true])]).isEmpty
        }
        #expect(isNull(making, early, gone))
        #expect(!isNull(making, early))
        #expect(!isNull(making, gone, later))
        #expect(!isNull(making, early, effect(change(3, .delete, at: 3), by: "a")))
        // What was refused is no write, and of what more than the writes decides nothing is said.
        let no = Verdict.rejected(Rejection(code: .forbidden, message: "no"))
        #expect(shows("early", early, effect(write(1, "refused", at: 2), by: "a", no)))
        #expect(shows("early", late, effect(write(3, "x", at: 3, rule: .check), by: "a")))
        #expect(shows("early", late, effect(write(3, "x", at: 3), by: "a", isClamped: true)))
    }

    @Test("I5 a device has to have what is under its roots, up to each one's own checkpoint, and nothing else")
    func holding() throws {
        let bench = try Bench()
        let schema = bench.schema
        let records = [
            ServerRecord(key: board, version: 1), ServerRecord(key: RecordKey("board", "other"), version: 2),
            ServerRecord(key: RecordKey("list", "l"), version: 3, fields: ["idBoard": "b"]),
            ServerRecord(key: RecordKey("card", "c"), version: 4, fields: ["idList": "l"]),
            ServerRecord(key: RecordKey("card", "lost"), version: 5, fields: ["idList": "unknown"]),
        ]
        func checkpoints() throws -> [Int64?] {
            let holding = Holding(try bench.facts(), records, schema)
            return records.map { holding.checkpoint(of: $0.key) }
        }
        try bench.sql(
            "INSERT INTO sync_meta (key, value) VALUES ('checkpoint', 9) ON CONFLICT (key) DO UPDATE SET value = 9")
        #expect(try checkpoints() == [9, 9, 9, 9, 9])
        try bench.sql("INSERT INTO sync_meta (key, value) VALUES ('scopes', '{\"asked\":{\"board:b\":4}}')")
        #expect(try checkpoints() == [4, nil, 4, 4, nil])
        try bench.close()
    }

    @Test("values: a verdict or a record that is not the model server's is found; what it ruled or forgot is followed")
    func shadow() throws {
        func request(_ changes: Change...) -> ExchangeRequest {
            ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: changes)
        }
        func result(_ change: Change, _ verdict: Verdict) -> ChangeResult {
            ChangeResult(changeID: change.id, verdict: verdict)
        }
        let applied = Verdict.applied(version: 1, overwrote: [:], serverID: nil)
        func no(_ code: Rejection.Code) -> Verdict { .rejected(Rejection(code: code, message: "no")) }
        let shadow = Shadow(schema: try schema(), clock: ManualWallClock())
        let make = change(1, .create, fields: ["name": FieldDelta(old: nil, new: "A")])
        let edit = change(2, fields: ["name": FieldDelta(old: "A", new: "B")])
        let stray = change(3, of: RecordKey("board", "none"), fields: ["name": FieldDelta(old: "A", new: "B")])
        #expect(shadow.differences(request(make), [result(make, applied)]).isEmpty)
        // A refusal of the server's policy, and what it puts off, are its own to decide.
        #expect(shadow.differences(request(edit), [result(edit, .retry(afterSeconds: nil))]).isEmpty)
        #expect(shadow.differences(request(edit), []).count == 1)
        #expect(shadow.differences(request(stray), [result(stray, applied)]).count == 1)
        let another = change(4, of: stray.record, fields: stray.fields)
        #expect(shadow.differences(request(another), [result(another, no(.notFound))]).isEmpty)
        var again = result(make, applied)
        again.isDuplicate = true
        #expect(shadow.differences(request(make), [again]).isEmpty)
        // The edit came to the model though the reference server had no word for it.
        #expect(shadow.differences([ServerRecord(key: board, version: 9, fields: ["name": "B"])]).isEmpty)
        #expect(shadow.differences([ServerRecord(key: board, version: 9, fields: ["name": "A"])]).count == 1)
        #expect(shadow.differences([ServerRecord(key: board, version: 9, presence: .deleted)]).count == 1)
        #expect(shadow.differences([]).count == 1)
    }
}
