import SyncCore
import SyncTesting
import Testing

@testable import Transport

@Suite("Transport's pages keep the contract") struct PageContractTests {
    /// What an exchange makes of an answer with these records.
    private static func page(
        _ records: [ServerRecord], _ front: (BatchExchange) throws -> any Exchange = { $0 }
    ) async throws -> any RecordPage {
        let told = try records.map { record in
            let fields = String(decoding: try FieldValue.object(record.fields).json(), as: UTF8.self)
            let presence = record.presence == .live ? "" : #","\#(record.presence == .gone ? "gone" : "deleted")":true"#
            return
                #"{"entity":"board","id":"\#(record.key.id)","version":\#(record.version),"fields":\#(fields)\#(presence)}"#
        }
        let text = Sample.answer([
            "count": "\(records.count)", "changedRecords": "[\(told.joined(separator: ","))]",
            "currentSyncVersion": "\(records.last?.version ?? 0)",
        ])
        return try await front(try Sample.exchange(ScriptedHTTP([.of(200, text)]))).exchange(Sample.request(since: 0))
            .page
    }

    @Test("a page that is decoded as it is read", arguments: RecordPageContract.rules.indices)
    func answer(rule: Int) async throws {
        try await RecordPageContract.rules[rule].check { try await Self.page($0) }
    }

    @Test("a page whose records are named as on this device", arguments: RecordPageContract.rules.indices)
    func translated(rule: Int) async throws {
        let ids = InMemoryIDs()
        for number in 1...4 { ids.put(RecordKey("board", "b\(number)"), "server-\(number)") }
        let schema = try Schema(RecordPageContract.entities)
        try await RecordPageContract.rules[rule].check { records in
            let told = records.map { record in
                var record = record
                if let id = try? ids.serverIDs(of: [record.key])[record.key] { record.key = RecordKey("board", id) }
                return record
            }
            return try await Self.page(told) { IDTranslatingExchange($0, schema: schema, translation: ids) }
        }
    }
}
