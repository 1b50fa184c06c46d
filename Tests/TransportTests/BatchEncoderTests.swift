import SyncCore
import Testing

@testable import Transport

struct BatchEncoderTests {
    private func text(_ request: ExchangeRequest, _ limits: BatchLimits = .init()) throws -> String {
        String(decoding: try BatchEncoder(limits: limits).encode(request).body, as: UTF8.self)
    }

    @Test("the contract's request, member by member")
    func contract() throws {
        let change = Change(
            id: "c0ff", sequence: 17, record: RecordKey("card", "8f2e"), operation: .update,
            stamp: Stamp("0195a3f2c4d1-0004")!, baseVersion: 40,
            fields: [
                "name": FieldDelta(old: "A", new: "B"),
                "desc": FieldDelta(old: .null, new: "…", rule: .check, stamp: Stamp("0195a3f2c4d0-0000")!),
            ])
        let request = ExchangeRequest(
            cycleID: "0b6f", deviceID: "5d1c", dataset: "d-31", epoch: "e-7f", lastSyncVersion: 41, settled: 16,
            limit: 500, isStrict: false, changes: [change])
        #expect(
            try text(request) == """
                {"protocol":1,"cycleID":"0b6f","deviceID":"5d1c","dataset":"d-31","epoch":"e-7f","lastSyncVersion":41,\
                "settled":16,"limit":500,"dirtyRecords":[{"changeID":"c0ff","sequence":17,"entity":"card","id":"8f2e",\
                "operation":"update","schemaVersion":1,"stamp":"0195a3f2c4d1-0004","baseVersion":40,\
                "fields":{"desc":{"old":null,"new":"…","rule":"check","stamp":"0195a3f2c4d0-0000"},\
                "name":{"old":"A","new":"B"}}}]}
                """)
    }

    @Test("members that may be absent are, or stand where they are wanted")
    func optionalMembers() throws {
        let bare = ExchangeRequest(cycleID: "c", deviceID: "d", isStrict: false)
        #expect(
            try text(bare)
                == #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"limit":500,"dirtyRecords":[]}"#)
        var full = ExchangeRequest(
            cycleID: "c", deviceID: "d", scopes: ["board:b": 0, "board:a": 41], fullPass: true, limit: 9,
            isStrict: true, wantsChecksum: true)
        full.changes = [
            Change(
                id: "k1", sequence: 1, record: RecordKey("card", "1"), operation: .create, stamp: .zero,
                fields: ["n": FieldDelta(old: nil, new: .data([0]), rule: .sum)], unit: "u", intent: "archive",
                deviceID: "old"),
            Change(
                id: "k2", sequence: 2, record: RecordKey("card", "1"), operation: .delete, stamp: .zero,
                baseVersion: 3, unit: "u"),
        ]
        #expect(
            try text(full) == """
                {"protocol":1,"cycleID":"c","deviceID":"d","scopes":{"board:a":41,"board:b":0},"fullPass":true,\
                "limit":9,"order":"strict","checksum":true,"dirtyRecords":[\
                {"changeID":"k1","sequence":1,"deviceID":"old","entity":"card","id":"1","operation":"create",\
                "schemaVersion":1,"stamp":"000000000000-0000","transaction":"u","intent":"archive",\
                "fields":{"n":{"new":{"$data":"AA=="},"rule":"sum"}}},\
                {"changeID":"k2","sequence":2,"entity":"card","id":"1","operation":"delete","schemaVersion":1,\
                "stamp":"000000000000-0000","baseVersion":3,"transaction":"u"}]}
                """)
    }

    @Test("NET-01 the same change is always the same bytes")
    func sameBytes() throws {
        let fields = Dictionary(
            uniqueKeysWithValues: (0..<50).map { ("field\($0)", FieldDelta(old: .int(Int64($0)), new: "new")) })
        var writer = JSONWriter()
        try BatchEncoder.write(Sample.change(1, fields: fields), into: &writer)
        for _ in 0..<20 {
            var again = JSONWriter()
            let copy = Dictionary(uniqueKeysWithValues: fields.shuffled().map { ($0.key, $0.value) })
            try BatchEncoder.write(Sample.change(1, fields: copy), into: &again)
            #expect(again.bytes == writer.bytes)
        }
    }

    @Test("a request is split by count and by bytes, and its body is whole JSON")
    func splits() throws {
        let changes = (1...20).map { Sample.change($0) }
        let byCount = try BatchEncoder(limits: BatchLimits(changes: 7)).encode(Sample.request(changes))
        #expect(byCount.count == 7)
        let whole = try BatchEncoder().encode(Sample.request(changes))
        #expect(whole.count == 20)
        for bytes in stride(from: whole.body.count, to: 500, by: -97) {
            let batch = try BatchEncoder(limits: BatchLimits(bytes: bytes)).encode(Sample.request(changes))
            #expect(batch.body.count <= bytes)
            guard case .object(let members) = try FieldValue(json: batch.body),
                case .array(let records)? = members["dirtyRecords"]
            else { return #expect(Bool(false), "no request") }
            #expect(records.count == batch.count)
            #expect(batch.count > 0)
        }
    }

    @Test(
        "DAT-28 a unit is never divided",
        arguments: [
            ([nil, nil, "u", "u", nil], 5, 5), ([nil, nil, "u", "u", nil], 4, 4), ([nil, nil, "u", "u", nil], 3, 2),
            (["u", "u", "u"], 2, 0), (["u", nil, "u", nil], 3, 3), (["u", nil, "u", nil], 2, 0),
            (["u", "u", "v", "v"], 3, 2), ([nil, "u", "v", "u", "v"], 4, 1), ([], 0, 0),
        ] as [([String?], Int, Int)])
    func units(_ units: [String?], _ fitting: Int, _ count: Int) {
        let changes = units.enumerated().map { Sample.change($0.offset + 1, unit: $0.element) }
        #expect(BatchEncoder.cut(changes, at: fitting) == count)
    }

    @Test("QUE-15 a change, or a unit, that does not fit alone is too large, and nothing is sent")
    func tooLarge() async throws {
        let http = ScriptedHTTP([.of()])
        var options = Sample.patient
        options.request = BatchLimits(changes: 2, bytes: 2000)
        let exchange = try Sample.exchange(http, options: options)
        let long = Sample.change(
            1, fields: ["a": FieldDelta(old: nil, new: .string(String(repeating: "x", count: 3000)))])
        #expect(await failure { try await exchange.exchange(Sample.request([long])) }?.kind == .tooLarge)
        let unit = (1...3).map { Sample.change($0, unit: "u") }
        #expect(await failure { try await exchange.exchange(Sample.request(unit)) }?.kind == .tooLarge)
        #expect(http.requests.isEmpty)
    }

    @Test("QUE-15 what does not fit into a request is told to have stayed here", arguments: [1, 2])
    func leftOut(changes: Int) async throws {
        let http = ScriptedHTTP([.of(200, Sample.answer())])
        var options = Sample.patient
        options.request = BatchLimits(changes: changes)
        let exchange = try Sample.exchange(http, options: options)
        let request = Sample.request((1...2).map { Sample.change($0) })
        #expect(try await exchange.exchange(request).sentCount == (changes == 1 ? 1 : nil))
    }

    @Test("a value that JSON cannot say blames no other change")
    func notANumber() throws {
        let bad = Sample.change(1, fields: ["a": FieldDelta(old: nil, new: .double(.nan))])
        #expect(throws: ExchangeFailure.self) { try BatchEncoder().encode(Sample.request([bad])) }
    }
}
