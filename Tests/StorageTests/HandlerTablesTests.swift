import Storage
import SyncCore
import Testing

/// The tables that are made when the first handler of the app's own has something to be told, or has built something.
@Suite struct HandlerTablesTests {
    @Test(
        "Seed 94 of those with handlers: another process made the table, and this one goes on",
        arguments: [false, true])
    func madeByAnother(isPayload: Bool) async throws {
        let file = try TestFile()
        let stores = [
            try Store(path: file.path, schema: boardSchema()), try Store(path: file.path, schema: boardSchema()),
        ]
        for (place, store) in stores.enumerated() {
            store.keepUntold(of: ["board"])
            // Each looks before there is anything.
            #expect(try await store.lastUntold() == 0)
            #expect(try await store.payloads(of: ["k"]).isEmpty)
            if place == 1 { #expect(try await stores[0].lastUntold() == 0) }
        }
        for (place, store) in stores.enumerated() {
            if isPayload {
                let change = Change(
                    id: "k\(place)", sequence: 1, record: RecordKey("board", "b\(place)"), operation: .update,
                    stamp: .zero,
                    fields: ["name": FieldDelta(old: nil, new: "n")])
                try await store.keepPayloads([change])
            } else {
                let number = Int64(place + 1)
                _ = try await store.apply(
                    PageSlice(
                        records: [record("board", "b\(place)", number, ["name": "n"])], from: number - 1,
                        checkpoint: number,
                        epoch: Fixture.epoch))
            }
        }
        for store in stores {
            if isPayload {
                #expect(try await store.payloads(of: ["k0", "k1"]).count == 2)
            } else {
                #expect(try await store.untold(after: 0, limit: 9).map(\.record.key.id) == ["b0", "b1"])
            }
        }
        for store in stores { try await store.close() }
    }
}
