import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// One id for each record, whoever names it.
@Suite struct CanonicalIDsTests {
    private let ids: CanonicalIDs
    private let list = RecordKey("list", "l"), named = RecordKey("list", "Sl")

    init() throws { ids = CanonicalIDs(try Schema(SimulationSchema.entities)) }

    @Test("A record has the device's id, whichever of its two it is told by")
    func keys() {
        #expect(CanonicalIDs.server("l") == "Sl" && CanonicalIDs.server("Sl") == "Sl")
        #expect(ids.key(list) == list && ids.key(named) == list)
    }

    @Test("References are told by it, and texts that look like an id stay as they are")
    func references() {
        let record = ServerRecord(
            key: named, version: 7, fields: ["idBoard": "Sb", "name": "Summer", "pos": 1.5])
        let canonical = ids.record(record)
        #expect(canonical.key == list && canonical.version == 7)
        #expect(canonical.fields == ["idBoard": "b", "name": "Summer", "pos": 1.5])
        let sent = ids.change(
            change(
                1, of: named,
                fields: ["idBoard": FieldDelta(old: "Sa", new: "Sb"), "name": FieldDelta(old: "S", new: "Sx")]))
        #expect(sent.record == list)
        #expect(sent.fields["idBoard"] == FieldDelta(old: "a", new: "b"))
        #expect(sent.fields["name"] == FieldDelta(old: "S", new: "Sx"))
    }

    @Test("Verdicts tell records, what was overwritten, and what is missing by it")
    func verdicts() {
        let changes = [change(1, of: named), change(2, .create, of: list), change(3, of: list)]
        let record = ServerRecord(key: named, version: 7, fields: ["idBoard": "Sb"])
        var answer = ExchangeAnswer(
            dataset: nil, epoch: "e", currentSyncVersion: 1,
            results: [
                ChangeResult(changeID: "k-1", verdict: .merged(record: record)),
                ChangeResult(
                    changeID: "k-2", verdict: .applied(version: 1, overwrote: ["idBoard": "Sb"], serverID: "Sl")),
                ChangeResult(
                    changeID: "k-3",
                    verdict: .rejected(Rejection(code: .missingReference, message: "", reference: "Sb"))),
            ], page: ArrayPage([]))
        let request = ExchangeRequest(cycleID: "c", deviceID: "d", lastSyncVersion: 0, changes: changes)
        answer = ids.verdicts(answer, of: request)
        #expect(answer.results[0].verdict.record == ids.record(record))
        guard case .applied(_, ["idBoard": "b"], "Sl") = answer.results[1].verdict else {
            Issue.record("\(answer.results[1])")
            return
        }
        guard case .rejected(let rejection) = answer.results[2].verdict else {
            Issue.record("\(answer.results[2])")
            return
        }
        #expect(rejection.reference == "b")
    }

    @Test(
        "A request is told apart behind what was not done under a record's other name; in strict order not behind a retry (seed 54192)"
    )
    func parts() {
        let board = RecordKey("board", "b")
        var request = ExchangeRequest(
            cycleID: "c", deviceID: "d", changes: [change(1, of: board), change(2, of: list), change(3, of: named)])
        func parts(retried: Set<String>) -> [[String]] {
            ids.parts(of: request, isDone: { _ in false }, isRetried: retried.contains).map { $0.changes.map(\.id) }
        }
        #expect(parts(retried: []) == [["k-1", "k-2"], ["k-3"]])
        #expect(parts(retried: ["k-1"]) == [["k-1", "k-2", "k-3"]])
        request.isStrict = false
        #expect(parts(retried: ["k-1"]) == [["k-1", "k-2"], ["k-3"]])
    }

    @Test("Where the server takes the devices' ids, everything stays as it is")
    func same() {
        let none = CanonicalIDs()
        #expect(!none.areTwo && none.key(named) == named)
        #expect(
            none.record(ServerRecord(key: named, version: 1, fields: ["idBoard": "Sb"])).fields == ["idBoard": "Sb"])
    }

    @Test("An edit is made by the ids that the device has, and of what it does not know by those that it was told")
    func localEdits() throws {
        let schema = try Schema(SimulationSchema.entities)
        var names = LocalIDs()
        names.note("Sb", of: RecordKey("board", "b"))
        names.note("Sl", of: list)
        #expect(
            names.edit(.update(list, ["idBoard": "b", "name": "b"]), schema)
                == .update(named, ["idBoard": "Sb", "name": "b"]))
        #expect(names.edit(.delete(list), schema) == .delete(named))
        let new = RecordKey("list", "new")
        #expect(names.edit(.insert(new, ["idBoard": "c"]), schema) == .insert(new, ["idBoard": "c"]))
    }
}
