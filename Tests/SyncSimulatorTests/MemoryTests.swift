import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// Nothing that a device has read is taken back, and what it heard leaves its marks.
@Suite struct MemoryTests {
    /// A device with a board at version 7 and a checkpoint of 9, looked at once.
    private func seen() throws -> (bench: Bench, memory: Memory) {
        let bench = try Bench()
        try bench.sql(
            """
            INSERT INTO sync_meta (key, value) VALUES ('epoch', 'e'), ('checkpoint', 9)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value;
            INSERT INTO sync_record (entity, id, version) VALUES ('board', 'b', 7);
            """)
        var memory = Memory()
        #expect(try memory.falls(bench.facts()).isEmpty)
        return (bench, memory)
    }

    @Test("I5 a checkpoint that falls is found; one that begins anew with another history or full pass is none")
    func checkpoint() throws {
        let (bench, start) = try seen()
        var memory = start
        try bench.sql("UPDATE sync_meta SET value = 10 WHERE key = 'checkpoint'")
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.sql("UPDATE sync_meta SET value = 8 WHERE key = 'checkpoint'")
        #expect(try memory.falls(bench.facts()) == ["the checkpoint fell from 10"])
        try bench.sql("UPDATE sync_meta SET value = 7 WHERE key = 'checkpoint'")
        try bench.sql("UPDATE sync_meta SET value = 'f' WHERE key = 'epoch'")
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.close()
    }

    @Test("I5 a held version that falls is found, also one whose record went meanwhile and came back")
    func versions() throws {
        let (bench, start) = try seen()
        var memory = start
        try bench.sql("UPDATE sync_record SET version = 6")
        #expect(try memory.falls(bench.facts()) == ["board b fell from version 7 to 6"])
        try bench.sql("UPDATE sync_record SET version = 8")
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.sql("DELETE FROM sync_record")
        #expect(try memory.falls(bench.facts()).isEmpty)
        // Made anew here it begins at 0.
        try bench.sql("INSERT INTO sync_record (entity, id, version) VALUES ('board', 'b', 0)")
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.sql("UPDATE sync_record SET version = 7")
        #expect(try memory.falls(bench.facts()) == ["board b came back at version 7, and was at 8"])
        try bench.sql("DELETE FROM sync_record")
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.sql("INSERT INTO sync_record (entity, id, version) VALUES ('board', 'b', 9)")
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.close()
    }

    @Test("I5 the checkpoint of a held root that falls is found, but for one that is read again from 0")
    func roots() throws {
        let (bench, start) = try seen()
        var memory = start
        func hold(_ json: String) throws {
            try bench.sql(
                """
                INSERT INTO sync_meta (key, value) VALUES ('scopes', '\(json)')
                ON CONFLICT (key) DO UPDATE SET value = excluded.value
                """)
        }
        try hold(#"{"asked":{"board:b":9}}"#)
        #expect(try memory.falls(bench.facts()).isEmpty)
        try hold(#"{"asked":{"board:b":0},"returning":{"board:b":9}}"#)
        #expect(try memory.falls(bench.facts()).isEmpty)
        try hold(#"{"asked":{"board:b":5}}"#)
        #expect(try memory.falls(bench.facts()) == ["the checkpoint of board b fell from 9 to 5"])
        memory.chose()
        try hold(#"{"asked":{"board:b":2}}"#)
        #expect(try memory.falls(bench.facts()).isEmpty)
        try bench.close()
    }

    @Test("DAT-05 seed 12541: the verdict before shows that somebody else brought the record back: the edit did not")
    func revivedBySomebodyElse() throws {
        let bench = try Bench()
        let changes = [Int64(1), 2].map { number in
            var sent = change(number, .update)
            sent.baseVersion = 12
            return sent
        }
        var memory = Memory()
        memory.read([ServerRecord(key: changes[0].record, version: 12, presence: .deleted)])
        memory.sends(new: changes.map(\.id))
        let theirs = ServerRecord(key: changes[0].record, version: 14, presence: .live)
        let results = [
            ChangeResult(changeID: changes[0].id, verdict: .merged(record: theirs)),
            ChangeResult(changeID: changes[1].id, verdict: .applied(version: 15, overwrote: [:], serverID: nil)),
        ]
        memory.heard(
            ExchangeAnswer(
                dataset: "d", epoch: "e", currentSyncVersion: 15, hasMore: false, results: results, page: ArrayPage([])),
            of: ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: changes))
        let sent = Dictionary(uniqueKeysWithValues: changes.map { ($0.id, $0) })
        let missing = try bench.store.database.read {
            var parsed: [String: FieldValue] = [:]
            return try memory.missingLines($0, DeviceFacts($0, bench.schema, &parsed), sent: { sent[$0] }, made: [])
        }
        #expect(missing.filter { $0.contains("revived") } == [])
        try bench.close()
    }

    @Test("DAT-05 seed 1244: a page that is read beside the edit may bring what it revived: then nobody notes that")
    func revivedBeforeItWasToldSo() throws {
        for readsBeside in [false, true] {
            let bench = try Bench()
            var edit = change(1, .update)
            edit.baseVersion = 12
            var memory = Memory(readsBeside: readsBeside)
            memory.read([ServerRecord(key: edit.record, version: 12, presence: .deleted)])
            memory.sends(new: [edit.id])
            let verdict = Verdict.applied(version: 15, overwrote: [:], serverID: nil)
            memory.heard(
                ExchangeAnswer(
                    dataset: "d", epoch: "e", currentSyncVersion: 15, hasMore: false,
                    results: [ChangeResult(changeID: edit.id, verdict: verdict)], page: ArrayPage([])),
                of: ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: [edit]))
            memory.read([ServerRecord(key: edit.record, version: 15, presence: .live)])
            let missing = try bench.store.database.read {
                var parsed: [String: FieldValue] = [:]
                return try memory.missingLines(
                    $0, DeviceFacts($0, bench.schema, &parsed), sent: { _ in edit }, made: [])
            }
            #expect(missing.filter { $0.contains("revived") }.count == (readsBeside ? 0 : 1))
            try bench.close()
        }
    }

    @Test(
        "DAT-05 seeds 31335, 28178: a verdict's record counts in its place among the verdicts, and not below what was read",
        arguments: [true, false])
    func toldDead(isRepeated: Bool) throws {
        let bench = try Bench()
        let record = RecordKey("board", "b")
        func page(_ version: Int64, _ presence: ServerRecord.Presence) -> ServerRecord {
            ServerRecord(key: record, version: version, presence: presence)
        }
        func hear(_ memory: inout Memory, _ changes: [Change], _ verdicts: [Verdict]) {
            memory.sends(new: changes.map(\.id))
            let results = zip(changes, verdicts).map { ChangeResult(changeID: $0.id, verdict: $1) }
            memory.heard(
                ExchangeAnswer(
                    dataset: "d", epoch: "e", currentSyncVersion: 25, hasMore: false, results: results,
                    page: ArrayPage([])),
                of: ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: changes))
        }
        var memory = Memory()
        var sent = (1...3).map { change(Int64($0), .update) }
        sent[2].baseVersion = 4
        if isRepeated {
            // It had died, and somebody else had brought it back; the first verdict was as it died.
            hear(&memory, [], [])
            memory.read([page(25, .live)])
            hear(&memory, [sent[0]], [.merged(record: page(4, .deleted))])
        } else {
            // The second one brought it back, and says so.
            let verdicts: [Verdict] = [
                .merged(record: page(4, .deleted)), .applied(version: 25, overwrote: [:], serverID: nil),
            ]
            hear(&memory, Array(sent.prefix(2)), verdicts)
        }
        hear(&memory, [sent[2]], [.applied(version: 35, overwrote: [:], serverID: nil)])
        let missing = try bench.store.database.read {
            var parsed: [String: FieldValue] = [:]
            return try memory.missingLines(
                $0, DeviceFacts($0, bench.schema, &parsed),
                sent: { key in sent.first { $0.id == key } }, made: [])
        }
        #expect(missing.filter { $0.contains("revived") } == [])
        try bench.close()
    }

    @Test("DAT-05 I13 an edit that brings a dead record back leaves one event “revived”, and a create none")
    func revived() throws {
        func found(
            _ operation: SyncCore.Operation = .update, base: Int64 = 12, isNew: Bool = true, isDead: Bool = true,
            isBack: Bool = false, events: Int
        ) throws -> Int {
            let bench = try Bench()
            var sent = change(1, operation)
            sent.baseVersion = base
            for _ in 0..<events {
                try bench.sql("INSERT INTO sync_event (key, kind, at) VALUES ('k-1', 'revived', 1)")
            }
            var memory = Memory()
            memory.read([ServerRecord(key: sent.record, version: 12, presence: isDead ? .deleted : .live)])
            let verdict = Verdict.applied(version: 13, overwrote: [:], serverID: nil)
            for each in isBack ? [change(0), sent] : [sent] {
                memory.sends(new: isNew ? [each.id] : [])
                memory.heard(
                    ExchangeAnswer(
                        dataset: "d", epoch: "e", currentSyncVersion: 13, hasMore: false,
                        results: [ChangeResult(changeID: each.id, verdict: verdict)], page: ArrayPage([])),
                    of: ExchangeRequest(cycleID: "c", deviceID: "a", lastSyncVersion: 0, changes: [each]))
            }
            let missing = try bench.store.database.read {
                var parsed: [String: FieldValue] = [:]
                return try memory.missingLines(
                    $0, DeviceFacts($0, bench.schema, &parsed), sent: { _ in sent }, made: [])
            }
            try bench.close()
            return missing.count
        }
        #expect(try found(events: 1) == 0)
        #expect(try found(events: 0) == 1)
        #expect(try found(events: 2) == 1)
        #expect(try found(.create, events: 1) == 1)
        #expect(try found(.create, events: 0) == 0)
        // Nobody can tell: it was sent before, over another version, or was alive.
        #expect(try found(isNew: false, events: 0) == 0)
        #expect(try found(base: 11, events: 0) == 0)
        #expect(try found(isDead: false, events: 0) == 0)
        // Seed 1508: another edit had brought it back before.
        #expect(try found(isBack: true, events: 0) == 0)
    }
}
