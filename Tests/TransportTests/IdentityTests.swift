import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// A server that makes its own ids: what stands on the wire, and what the app sees.
struct IdentityTests {
    static func schema() throws -> Schema {
        try Schema([
            EntitySchema("list", fields: [.text("name")]),
            EntitySchema("card", fields: [.text("name"), .parent("idList", "list"), .reference("idTwin", "card")]),
        ])
    }

    static func change(
        _ number: Int, _ operation: SyncCore.Operation, _ entity: String, _ id: String,
        _ fields: [String: FieldDelta] = [:], unit: String? = nil
    ) -> Change {
        Change(
            id: "key-\(number)", sequence: Int64(number), record: RecordKey(entity, id), operation: operation,
            stamp: Stamp(milliseconds: 1000, counter: 1), fields: fields, unit: unit)
    }

    private typealias Script = @Sendable (ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer

    private func exchange(
        _ map: InMemoryIDs, waits: IDWaiting = .always, _ script: @escaping Script
    ) throws -> IDTranslatingExchange {
        IDTranslatingExchange(
            ScriptedExchange(otherwise: .answer(script)), schema: try Self.schema(), translation: map, waits: waits)
    }

    /// Keeps what arrived.
    private final class Seen: Sendable {
        private let kept = Locked<[ExchangeRequest]>([])
        var requests: [ExchangeRequest] { kept.withLock { $0 } }
        func add(_ request: ExchangeRequest) { kept.withLock { $0.append(request) } }
    }

    @Test("IDS-01 edits and children go out under the server's id; two looks at the map for a whole request")
    func outgoing() async throws {
        let (map, seen) = (InMemoryIDs(), Seen())
        map.put(RecordKey("list", "l-1"), "S1")
        map.put(RecordKey("card", "c-1"), "S2")
        let exchange = try exchange(map) { request in
            seen.add(request)
            return ExchangeAnswer(epoch: "e", currentSyncVersion: 1, page: ArrayPage([]))
        }
        let request = ExchangeRequest(
            cycleID: "cycle", deviceID: "device", scopes: ["list:l-1": 4, "list:l-9": 5],
            changes: [
                Self.change(1, .update, "list", "l-1", ["name": FieldDelta(old: "l-1", new: "about l-1")]),
                Self.change(2, .create, "card", "c-2", ["idList": FieldDelta(old: nil, new: "l-1")]),
                Self.change(3, .update, "card", "c-1", ["idTwin": FieldDelta(old: "c-1", new: "c-9")]),
            ])
        _ = try await exchange.exchange(request)
        let sent = try #require(seen.requests.first)
        #expect(sent.changes.map(\.record.id) == ["S1", "c-2", "S2"])
        // IDS-02: a text that happens to be an id stays as it is.
        #expect(sent.changes[0].fields["name"] == FieldDelta(old: "l-1", new: "about l-1"))
        #expect(sent.changes[1].fields["idList"]?.new == "S1")
        #expect(sent.changes[2].fields["idTwin"] == FieldDelta(old: "S2", new: "c-9"))
        #expect(sent.scopes == ["list:S1": 4, "list:l-9": 5])
        #expect(map.lookCount == 1)
    }

    @Test("IDS-01 what needs a record that is created here waits for the server's id; a unit goes whole")
    func dependants() async throws {
        let (map, seen) = (InMemoryIDs(), Seen())
        let exchange = try exchange(map) { request in
            seen.add(request)
            return ExchangeAnswer(epoch: "e", currentSyncVersion: 1, page: ArrayPage([]))
        }
        let list = Self.change(1, .create, "list", "l-1")
        let other = Self.change(2, .create, "list", "l-2")
        let card = Self.change(3, .create, "card", "c-1", ["idList": FieldDelta(old: nil, new: "l-1")])
        var counts: [Int?] = []
        func ask(_ id: String, _ changes: [Change]) async throws {
            let request = ExchangeRequest(cycleID: id, deviceID: "device", changes: changes)
            counts.append(try await exchange.exchange(request).sentCount)
        }
        try await ask("1", [list, other, card])
        try await ask("2", [list, Self.change(4, .update, "list", "l-1")])
        var (first, second) = (list, card)
        first.unit = "u"
        second.unit = "u"
        try await ask("3", [first, second])
        second.unit = "v"
        try await ask("4", [list, Self.change(5, .create, "list", "l-5", unit: "v"), second])
        #expect(counts == [2, 1, nil, 1])
        #expect(seen.requests.map { $0.changes.map(\.sequence) } == [[1, 2], [1], [1, 3], [1]])
    }

    @Test("IDS-01 nobody says that the server makes ids: nothing waits and nothing is looked up before it has made one")
    func onceNamed() async throws {
        let (map, seen) = (InMemoryIDs(), Seen())
        let exchange = try exchange(map, waits: .onceNamed) { request in
            seen.add(request)
            let page = [ServerRecord(key: RecordKey("list", "S1"), version: 1)]
            return ExchangeAnswer(epoch: "e", currentSyncVersion: 1, page: ArrayPage(page))
        }
        let list = Self.change(1, .create, "list", "l-1")
        let card = Self.change(2, .create, "card", "c-1", ["idList": FieldDelta(old: nil, new: "l-1")])
        let request = ExchangeRequest(cycleID: "1", deviceID: "device", changes: [list, card])
        let first = try await exchange.exchange(request)
        #expect(try first.page.next(maxRecords: 9, maxBytes: 999).map(\.key.id) == ["S1"])
        #expect(map.lookCount == 0)
        map.put(RecordKey("list", "l-1"), "S1")
        let second = try await exchange.exchange(
            ExchangeRequest(
                cycleID: "2", deviceID: "device",
                changes: [card, Self.change(3, .update, "card", "c-1", ["name": FieldDelta(old: nil, new: "A")])]))
        #expect(try second.page.next(maxRecords: 9, maxBytes: 999).map(\.key.id) == ["l-1"])
        #expect(seen.requests.map { $0.changes.map(\.sequence) } == [[1, 2], [2]])
        #expect(seen.requests.map { $0.changes.last?.fields["idList"]?.new } == ["l-1", "S1"])
    }

    @Test("IDS-01 what an answer names is known to all of its verdicts, though it stands in no map yet")
    func namedInTheSameAnswer() async throws {
        let map = InMemoryIDs()
        let exchange = try exchange(map, waits: .onceNamed) { _ in
            let card = ServerRecord(
                key: RecordKey("card", "c-1"), version: 4, fields: ["idList": "S1", "idTwin": "S2", "name": "S1"])
            return ExchangeAnswer(
                epoch: "e", currentSyncVersion: 9,
                results: [
                    ChangeResult(changeID: "key-1", verdict: .applied(version: 1, overwrote: [:], serverID: "S1")),
                    ChangeResult(changeID: "key-2", verdict: .merged(record: card), serverID: "S2"),
                    ChangeResult(
                        changeID: "key-3", verdict: .applied(version: 5, overwrote: ["idList": "S1"], serverID: nil)),
                ], page: ArrayPage([]))
        }
        let changes = [
            Self.change(1, .create, "list", "l-1"),
            Self.change(2, .create, "card", "c-1", ["idList": FieldDelta(old: nil, new: "l-1")]),
            Self.change(3, .update, "card", "c-3", ["idList": FieldDelta(old: "l-2", new: "l-1")]),
        ]
        let request = ExchangeRequest(cycleID: "1", deviceID: "device", changes: changes)
        let results = try await exchange.exchange(request).results
        guard case .merged(let merged) = results[1].verdict else { throw Unexpected() }
        #expect(merged.fields == ["idList": "l-1", "idTwin": "c-1", "name": "S1"])
        #expect(results[2].verdict == .applied(version: 5, overwrote: ["idList": "l-1"], serverID: nil))
        // Where another record has the id here already, it is that one's, and what names it is set aside.
        map.put(RecordKey("list", "l-7"), "S1")
        let again = try await exchange.exchange(request).results
        #expect(again[2].verdict == .applied(version: 5, overwrote: ["idList": "l-7"], serverID: nil))
    }

    /// Makes of a request what it is, and goes only with what was made of the same.
    private struct Preparing: Exchange {
        let used: Locked<[Bool]>
        func prepare(_ request: ExchangeRequest) -> (any Sendable)? { request.changes }
        func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
            try await exchange(request, prepared: nil)
        }
        func exchange(
            _ request: ExchangeRequest, prepared: (any Sendable)?
        ) async throws(ExchangeFailure) -> ExchangeAnswer {
            let ready = prepared as? [Change]
            #expect(ready == nil || ready == request.changes)
            used.withLock { $0.append(ready != nil) }
            return ExchangeAnswer(epoch: "e", currentSyncVersion: 1, page: ArrayPage([]))
        }
        func close() async {}
    }

    @Test("IDS-01 what was made ready under the device's ids is not sent once the server has others")
    func prepared() async throws {
        let (map, used) = (InMemoryIDs(), Locked<[Bool]>([]))
        let exchange = IDTranslatingExchange(
            Preparing(used: used), schema: try Self.schema(), translation: map, waits: .onceNamed)
        let request = ExchangeRequest(
            cycleID: "1", deviceID: "device",
            changes: [Self.change(2, .create, "card", "c-1", ["idList": FieldDelta(old: nil, new: "l-1")])])
        _ = try await exchange.exchange(request, prepared: exchange.prepare(request))
        let early = exchange.prepare(request)
        map.put(RecordKey("list", "l-1"), "S1")
        _ = try await exchange.exchange(request, prepared: early)
        _ = try await exchange.exchange(request, prepared: exchange.prepare(request))
        #expect(used.withLock { $0 } == [true, false, true])
    }

    @Test("IDS-01, IDS-03 what comes back is named as on this device, what the same answer mapped too")
    func incoming() async throws {
        let map = InMemoryIDs()
        map.put(RecordKey("list", "l-1"), "S1")
        let exchange = try exchange(map) { request in
            let fields: [String: FieldValue] = ["idList": "S1", "name": "S1", "idTwin": "S7"]
            let record = ServerRecord(key: RecordKey("list", "S1"), version: 8, fields: ["name": "x"])
            return ExchangeAnswer(
                epoch: "e", currentSyncVersion: 9,
                results: [
                    ChangeResult(changeID: "key-1", verdict: .merged(record: record)),
                    ChangeResult(
                        changeID: "key-2", verdict: .applied(version: 7, overwrote: ["idList": "S1"], serverID: "S7")),
                    ChangeResult(
                        changeID: "key-3",
                        verdict: .rejected(
                            Rejection(code: .missingReference, message: "no", field: "idList", reference: "S1"))),
                ],
                page: ArrayPage([
                    ServerRecord(key: RecordKey("card", "S8"), version: 8, fields: fields),
                    ServerRecord(key: RecordKey("list", "S1"), version: 9, presence: .deleted),
                ]))
        }
        let answer = try await exchange.exchange(
            ExchangeRequest(
                cycleID: "cycle", deviceID: "device",
                changes: [
                    Self.change(1, .update, "list", "l-1"),
                    Self.change(2, .create, "card", "c-1", ["idList": FieldDelta(old: nil, new: "l-9")]),
                    Self.change(3, .create, "card", "c-2", ["idList": FieldDelta(old: nil, new: "l-1")]),
                ]))
        guard case .merged(let merged) = answer.results[0].verdict else { throw Unexpected() }
        #expect(merged.key == RecordKey("list", "l-1"))
        #expect(answer.results[1].verdict == .applied(version: 7, overwrote: ["idList": "l-1"], serverID: "S7"))
        guard case .rejected(let rejection) = answer.results[2].verdict else { throw Unexpected() }
        #expect(rejection.reference == "l-1")
        // The verdict is settled before the page is read.
        map.put(RecordKey("card", "c-1"), "S7")
        let page = try answer.page.next(maxRecords: 9, maxBytes: 999)
        #expect(page.map(\.key) == [RecordKey("card", "S8"), RecordKey("list", "l-1")])
        #expect(page[0].fields == ["idList": "l-1", "name": "S1", "idTwin": "c-1"])
    }

    @Test("a map that cannot be read sends nothing, and takes nothing of an answer")
    func broken() async throws {
        let (map, seen) = (InMemoryIDs(), Seen())
        let exchange = try exchange(map) { request in
            seen.add(request)
            map.fail(StoreFailure(kind: .io, message: "the disk is gone"))
            let record = ServerRecord(key: RecordKey("list", "S1"), version: 8, fields: ["name": "x"])
            return ExchangeAnswer(
                epoch: "e", currentSyncVersion: 9,
                results: [ChangeResult(changeID: "key-1", verdict: .merged(record: record))], page: ArrayPage([record]))
        }
        let request = ExchangeRequest(
            cycleID: "cycle", deviceID: "device", changes: [Self.change(1, .update, "list", "l-1")])
        let after = await failure { try await exchange.exchange(request) }
        #expect(after?.kind == .network && seen.requests.count == 1)
        let before = await failure { try await exchange.exchange(request) }
        #expect(before?.kind == .network && seen.requests.count == 1)
    }

    @Test("IDS-01 by REST as well")
    func rest() async throws {
        struct Sender: ChangeSender {
            func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
                changes.map { change in
                    let record = ServerRecord(key: change.record, version: 3, fields: ["idList": "S1"])
                    return ChangeResult(changeID: change.id, verdict: .conflict(record: record))
                }
            }
            func probe() async throws(ExchangeFailure) {}
        }
        let map = InMemoryIDs()
        map.put(RecordKey("card", "c-1"), "S2")
        map.put(RecordKey("list", "l-1"), "S1")
        let sender = IDTranslatingSender(Sender(), schema: try Self.schema(), translation: map)
        let results = try await sender.send([Self.change(1, .update, "card", "c-1")], deviceID: "device")
        let record = ServerRecord(key: RecordKey("card", "c-1"), version: 3, fields: ["idList": "l-1"])
        #expect(results == [ChangeResult(changeID: "key-1", verdict: .conflict(record: record))])
    }

    struct Unexpected: Error {}
}
