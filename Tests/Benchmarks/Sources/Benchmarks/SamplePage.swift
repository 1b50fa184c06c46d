import Foundation
import SyncCore

/// Records as a board has them, in our types and as Codable.
struct SamplePage: Sendable {
    struct CodableRecord: Codable {
        struct Fields: Codable {
            var name: String
            var desc: String?
            var idList: String
            var pos: Double
            var closed: Bool
            var count: Int64
            var dueAt: String
        }
        var entity: String
        var id: String
        var version: Int64
        var deleted: Bool
        var fields: Fields
    }

    struct CodableAnswer: Codable {
        var `protocol`: Int
        var cycleID: String
        var epoch: String
        var currentSyncVersion: Int64
        var hasMore: Bool
        var count: Int
        var results: [String]
        var changedRecords: [CodableRecord]
    }

    static let request = ExchangeRequest(cycleID: "cycle", deviceID: "device")

    var records: [ServerRecord]

    init(records count: Int) {
        records = (0..<count).map { Self.record($0) }
    }

    static func record(_ index: Int) -> ServerRecord {
        ServerRecord(
            key: RecordKey("card", "0195a3f2-c4d1-7000-8000-\(100_000_000_000 + index)"), version: Int64(index + 1),
            fields: [
                "name": .string("Card number \(index), with a title of usual length"),
                "desc": index % 3 == 0
                    ? .null : .string("Some words about it: é, “quotes”, \(index) and\nanother line."),
                "idList": .string("0195a3f2-c4d1-7000-8000-\(200_000_000_000 + index % 50)"),
                "pos": .double(Double(index) * 16_384.5), "closed": .bool(index % 7 == 0), "count": .int(Int64(index)),
                "dueAt": "2026-11-21T08:00:00.123Z",
            ])
    }

    /// The answer as bytes, written by our writer.
    func answer() throws -> [UInt8] {
        var writer = JSONWriter(capacity: records.count * 300)
        Self.begin(&writer, count: records.count)
        for record in records { try Self.write(record, &writer) }
        writer.endArray()
        writer.endObject()
        return writer.takeBytes()
    }

    func codable() -> CodableAnswer {
        CodableAnswer(
            protocol: 1, cycleID: "cycle", epoch: "e", currentSyncVersion: Int64(records.count), hasMore: false,
            count: records.count, results: [],
            changedRecords: records.map { record in
                func text(_ name: String) -> String? {
                    guard case .string(let text)? = record.fields[name] else { return nil }
                    return text
                }
                return CodableRecord(
                    entity: record.key.entity, id: record.key.id, version: record.version, deleted: false,
                    fields: .init(
                        name: text("name") ?? "", desc: text("desc"), idList: text("idList") ?? "",
                        pos: Double(record.version - 1) * 16_384.5, closed: record.version % 7 == 1,
                        count: record.version - 1, dueAt: text("dueAt") ?? ""))
            })
    }

    /// An answer of about so many bytes, made piece by piece: one head, pieces of 200 records, one end.
    static func hugePieces(bytes: Int) -> (count: Int, piece: @Sendable (Int) -> [UInt8]) {
        var writer = JSONWriter()
        for index in 0..<200 { write(record(index)) }
        func write(_ record: ServerRecord) {
            do { try Self.write(record, &writer) } catch { preconditionFailure("\(error)") }
        }
        let pieces = bytes / writer.count
        return (
            pieces + 2,
            { index in
                if index == pieces + 1 { return Array("]}".utf8) }
                var writer = JSONWriter()
                if index == 0 {
                    begin(&writer, count: pieces * 200)
                    return writer.bytes
                }
                for record in (index - 1) * 200..<index * 200 {
                    do { try Self.write(Self.record(record), &writer) } catch { preconditionFailure("\(error)") }
                }
                return (index == 1 ? [] : [UInt8(ascii: ",")]) + writer.bytes
            }
        )
    }

    private static func begin(_ writer: inout JSONWriter, count: Int) {
        writer.beginObject()
        writer.key("protocol")
        writer.int(1)
        writer.key("cycleID")
        writer.string("cycle")
        writer.key("epoch")
        writer.string("e")
        writer.key("currentSyncVersion")
        writer.int(Int64(count))
        writer.key("hasMore")
        writer.bool(false)
        writer.key("count")
        writer.int(Int64(count))
        writer.key("results")
        writer.beginArray()
        writer.endArray()
        writer.key("changedRecords")
        writer.beginArray()
    }

    private static func write(_ record: ServerRecord, _ writer: inout JSONWriter) throws {
        writer.beginObject()
        writer.key("entity")
        writer.string(record.key.entity)
        writer.key("id")
        writer.string(record.key.id)
        writer.key("version")
        writer.int(record.version)
        writer.key("deleted")
        writer.bool(false)
        writer.key("fields")
        try writer.members(record.fields)
        writer.endObject()
    }
}
