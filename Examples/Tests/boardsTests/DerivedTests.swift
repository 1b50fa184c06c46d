import BoardsModel
import Ferry
import Foundation
import GRDB
import SyncCore
import Testing

@testable import boards

/// What builders were asked to make anew, in the order of the asking.
private final class Asked: @unchecked Sendable {
    // Sendable: `notes` is used under `lock` alone.
    private let lock = NSLock()
    private var notes: [String] = []

    func note(_ builder: String, _ ids: [String]) {
        lock.withLock { notes.append("\(builder) \(ids.joined(separator: ","))") }
    }
    func take() -> [String] {
        lock.withLock {
            defer { notes = [] }
            return notes
        }
    }
}

@Suite("what is derived from the records")
struct DerivedTests {
    private let shop: Workshop

    init() throws { shop = try Workshop() }

    /// Two boards, three cards, a checklist with two items on the first card.
    private static let records: [(String, String, [String: FieldValue])] = [
        ("board", "b1", ["name": "One"]), ("board", "b2", ["name": "Two"]),
        ("list", "l1", ["name": "L1", "idBoard": "b1"]), ("list", "l2", ["name": "L2", "idBoard": "b2"]),
        ("card", "c1", ["name": "C1", "idList": "l1", "idLabels": ["x", "y"]]),
        ("card", "c2", ["name": "C2", "idList": "l1", "due": "2026-03-01T00:00:00.000Z"]),
        ("card", "c3", ["name": "C3", "idList": "l2"]),
        ("checklist", "k1", ["name": "K", "idCard": "c1"]),
        ("checkItem", "i1", ["name": "I1", "idChecklist": "k1", "state": "incomplete"]),
        ("checkItem", "i2", ["name": "I2", "idChecklist": "k1", "state": "complete"]),
    ]

    private func device(_ name: String, _ asked: Asked) async throws -> Device {
        let device = try Device.open(folder: shop.file(name), noting: asked.note)
        try await edit(device) { edits, db in
            for (entity, id, fields) in Self.records {
                _ = try edits.add(db, #require(edits.records.schema[entity]), id: id, fields)
            }
        }
        _ = asked.take()
        return device
    }

    /// Edits, and what is derived from them, in one transaction.
    private func edit(_ device: Device, _ work: @Sendable (Edits, Database) throws -> Void) async throws {
        let (edits, store) = (Edits(records: device.records), device.store)
        try await device.write { db in
            try work(edits, db)
            try store.refreshSnapshots(db)
        }
    }

    private func lines(_ device: Device) async throws -> [FieldValue] {
        let text = try await device.read { try DerivedLines.text($0, DerivedLines.Subject.allCases) }
        return try text.split(separator: "\n").map { try FieldValue(json: String($0)) }
    }

    private func line(_ device: Device, _ kind: String, _ id: String) async throws -> FieldValue {
        try #require(try await lines(device).first { $0["summary"]?.string == kind && $0["id"]?.string == id })
    }

    @Test("A ticked item rebuilds its checklist, then its card, then its board, and nothing else")
    func onlyWhatIsTouched() async throws {
        let asked = Asked()
        let device = try await device("a", asked)
        let schema = device.records.schema
        let (item, card, comment) = try (
            #require(schema["checkItem"]), #require(schema["card"]), #require(schema["comment"])
        )
        try await edit(device) { edits, db in
            try edits.set(db, RecordKey("checkItem", "i1"), item, ["state": "complete"])
        }
        #expect(asked.take() == ["progress k1", "badges c1", "summary b1"])
        #expect(try await line(device, "checklist", "k1")["checked"] == 2)
        #expect(try await line(device, "card", "c1")["checked"] == 2)
        #expect(try await line(device, "board", "b1")["checked"] == 2)
        #expect(try await line(device, "board", "b2")["items"] == 0)

        // A comment is in a card's badges and in its talk; both come before the board that reads them.
        try await edit(device) { edits, db in
            _ = try edits.add(db, comment, id: "m1", ["idCard": "c3", "text": "?", "idMemberCreator": "ann"])
        }
        #expect(Set(asked.take().dropLast()) == ["badges c3", "talk c3"])
        #expect(try await line(device, "board", "b2")["comments"] == 1)

        // A move touches both ends.
        try await edit(device) { edits, db in
            try edits.set(db, RecordKey("card", "c1"), card, ["idList": "l2"])
        }
        #expect(asked.take().last == "summary b1,b2")
        #expect(try await line(device, "board", "b1")["items"] == 0)
        #expect(try await line(device, "board", "b2")["items"] == 2)
        try await device.store.close()
    }

    @Test("A talk is folded in the order of its comments' dates, whatever comes late, is edited or goes away")
    func foldedHistory() async throws {
        let asked = Asked()
        let device = try await device("a", asked)
        let comment = try #require(device.records.schema["comment"])
        func say(_ id: String, _ member: String, _ minute: Int) async throws {
            try await edit(device) { edits, db in
                _ = try edits.add(
                    db, comment, id: id,
                    [
                        "idCard": "c1", "text": "…", "idMemberCreator": .string(member),
                        "date": .string("2026-01-01T08:0\(minute):00.000Z"),
                    ])
            }
        }
        try await say("m1", "ann", 1)
        try await say("m4", "ann", 4)
        var talk = try await line(device, "card", "c1")
        #expect(talk["turns"] == 1 && talk["since"]?.string == "2026-01-01T08:01:00.000Z")
        // One that was made between them comes late.
        try await say("m2", "bob", 2)
        talk = try await line(device, "card", "c1")
        #expect(talk["turns"] == 3 && talk["speaker"] == "ann" && talk["speakers"] == ["ann", "bob"])
        #expect(talk["since"]?.string == "2026-01-01T08:04:00.000Z")
        try await edit(device) { edits, db in
            try edits.set(db, RecordKey("comment", "m4"), comment, ["date": "2026-01-01T08:00:00.000Z"])
        }
        talk = try await line(device, "card", "c1")
        #expect(talk["turns"] == 2 && talk["speaker"] == "bob")
        try await edit(device) { edits, db in try edits.delete(db, RecordKey("comment", "m2")) }
        talk = try await line(device, "card", "c1")
        #expect(talk["turns"] == 1 && talk["speakers"] == ["ann"])
        #expect(try await line(device, "board", "b1")["turns"] == 1)
        try await device.store.close()
    }

    @Test("What edits leave step by step is what a database of the same records makes in one go; it comes back, too")
    func sameAsAnew() async throws {
        let asked = Asked()
        let device = try await device("a", asked)
        let records = device.records
        try await edit(device) { edits, db in
            for (entity, id) in [("checkItem", "i2"), ("list", "l2"), ("checklist", "k1")] {
                try edits.delete(db, RecordKey(entity, id))
            }
        }
        let step = try await device.read { try DerivedLines.text($0, DerivedLines.Subject.allCases) }
        #expect(!step.contains(#""id":"c3""#), "it stands under a deleted list")
        #expect(!step.contains(#""summary":"checklist""#))
        let kept = try await device.read { try records.fetchAll($0) }
        let other = try Device.open(folder: shop.file("b"))
        let page = kept.enumerated().map { ServerRecord(key: $1.key, version: Int64($0 + 1), fields: $1.fields) }
        _ = try await other.store.apply(PageSlice(records: page, from: 0, checkpoint: Int64(page.count), epoch: "e-1"))
        let whole = try await other.read { try DerivedLines.text($0, DerivedLines.Subject.allCases) }
        #expect(whole == step)
        try await device.store.close()
        try await other.store.close()
    }

    @Test("Two devices in step derive the same bytes, by a sync as by an import, and so does one that comes new")
    func sameOnEveryDevice() async throws {
        let file = try shop.write(JSONText.text(SampleBoard.export()), to: "garden.json")
        let server = try await ServerProcess(shop)
        defer { server.stop() }
        func sync(_ device: String) async throws {
            try await shop.ok(device, "--server", server.url, "sync", "--timeout", "300")
        }
        try await shop.ok("A", "import", file)
        try await sync("A")
        try await sync("B")
        let derived = try await shop.ok("A", "summary", "--json")
        #expect(derived.contains(#""summary":"board""#) && derived.contains(#""summary":"checklist""#))
        #expect(try await shop.ok("B", "summary", "--json") == derived)
        // Both go on: a tick and a comment here, a deleted list there.
        let item = try FieldValue(json: try #require(try await shop.on("A", "show", "checkItem").lines.first))
        let list = try FieldValue(json: try #require(try await shop.on("B", "show", "list").lines.last))
        try await shop.ok("A", "set", "checkItem", try #require(item["id"]?.string), "state=complete")
        try await shop.ok("B", "delete", "list", try #require(list["id"]?.string))
        for device in ["A", "B", "A", "C"] { try await sync(device) }
        let after = try await shop.ok("A", "summary")
        #expect(after != derived)
        #expect(try await shop.ok("B", "summary") == after)
        #expect(try await shop.ok("C", "summary") == after)
        #expect(try await shop.ok("A", "show", "--json") == shop.ok("C", "show", "--json"))
        let board = try #require(
            try FieldValue(json: after.split(separator: "\n").first.map(String.init) ?? "")["id"]?.string)
        #expect(try await shop.on("A", "summary", "board", board).lines.count == 1)
        #expect(try await shop.on("A", "summary", "nothing").status == 1)
    }
}
