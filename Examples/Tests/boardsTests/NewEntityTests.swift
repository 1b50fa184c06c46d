import BoardsModel
import Ferry
import Foundation
import GRDB
import SyncCore
import Testing

@testable import boards

@Suite struct NewEntityTests {
    private func device(_ folder: String) throws -> Device {
        try Device.open(folder: folder, schema: Schema(BoardEntities.all + [sticker]))
    }

    @Test("adding it touches one file, and at most 30 lines")
    func oneFile() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Sticker.swift")
        let text = try String(contentsOf: file, encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 30 && lines.contains { $0.contains("EntitySchema(") })
    }

    @Test(
        "a new entity is one declaration: its table, its edits, its changes, what comes of others and its lines follow")
    func oneDeclaration() async throws {
        let shop = try Workshop()
        let (a, b) = (try device(shop.file("a")), try device(shop.file("b")))
        let schema = a.records.schema
        let (cardEntity, stickerEntity) = (try #require(schema["card"]), try #require(schema["sticker"]))
        let edits = Edits(records: a.records)
        let id = try await a.write { db in
            let board = try edits.add(db, try #require(schema["board"]), id: nil, ["name": "Garden"])
            let list = try edits.add(
                db, try #require(schema["list"]), id: nil, ["name": "L", "idBoard": .string(board)])
            let card = try edits.add(db, cardEntity, id: nil, ["name": "C", "idList": .string(list)])
            return try edits.add(
                db, stickerEntity, id: nil, ["idCard": .string(card), "image": "bee", "tags": ["a", "b"]])
        }
        try await a.write { db in
            try edits.set(db, RecordKey("sticker", id), stickerEntity, ["rotate": .double(12.5)])
        }
        let queued = try await a.store.queued().map(\.change).filter { $0.record.entity == "sticker" }
        #expect(queued.map(\.operation) == [.create, .update])
        #expect(queued.last?.fields["rotate"]?.new == .double(12.5))
        // What a server would hand on.
        let records = try await a.read { try a.records.fetchAll($0) }
        let page = records.enumerated().map { ServerRecord(key: $1.key, version: Int64($0 + 1), fields: $1.fields) }
        let applied = try await b.store.apply(
            PageSlice(records: page, from: 0, checkpoint: Int64(page.count), epoch: "e-1"))
        #expect(applied.applied == 4 && applied.held == 0)
        let lines = try await b.read { Canonical.lines(try b.records.fetchAll($0), schema: schema) }
        #expect(lines == Canonical.lines(records, schema: schema))
        #expect(lines.contains(#""image":"bee""#) && lines.contains(#""rotate":12.5"#))
        try await a.store.close()
        try await b.store.close()
    }
}
