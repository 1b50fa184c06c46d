import SyncCore
import SyncTesting
import Testing

@testable import SyncServer

/// The reference server or the model server, asked the same: what both must say is tested once.
enum EitherServer: String, CaseIterable {
    case reference, model

    func make() throws -> any AskedServer {
        switch self {
        case .reference: ReferenceAsked(server: try TestServer())
        case .model:
            ModelAsked(
                server: ModelServer(
                    schema: try Schema([
                        EntitySchema("board", fields: [.text("name")]),
                        EntitySchema("list", fields: [.parent("idBoard", "board"), .text("name")]),
                        EntitySchema(
                            "card", fields: [.parent("idList", "list"), .text("name"), .reference("idTwin", "card")]),
                    ]), clock: ManualWallClock()))
        }
    }
}

protocol AskedServer {
    /// One request of a device for roots, each with its checkpoint.
    func ask(_ device: String, _ changes: [Change], of scopes: [String: Int64], limit: Int) throws -> Told
}

/// An answer, as far as versions go.
struct Told {
    struct Result: Equatable {
        var changeID: String
        var verdict: String
        /// Of the record: of what was applied, or of the record that the verdict tells.
        var version: Int64?
    }

    struct Record: Equatable, CustomStringConvertible {
        var key: RecordKey
        var version: Int64
        var isGone: Bool

        var description: String { "\(isGone ? "-" : "")\(key.id)@\(version)" }
    }

    var results: [Result]
    var records: [Record]
    var version: Int64
    var hasMore: Bool

    /// The page: ids with their versions, and a minus where they left.
    var page: [String] { records.map(\.description) }
}

struct ReferenceAsked: AskedServer {
    let server: TestServer

    func ask(_ device: String, _ changes: [Change], of scopes: [String: Int64], limit: Int) throws -> Told {
        let answer = try server.sync(
            device, changes.map(Self.wire),
            ["scopes": .object(scopes.mapValues { .int($0) }), "limit": .int(Int64(limit)), "order": "strict"])
        return Told(
            results: answer.results.map {
                Told.Result(
                    changeID: $0["changeID"].string ?? "", verdict: $0["verdict"].string ?? "",
                    version: $0["version"].int ?? $0["record"]["version"].int)
            },
            records: answer.records.map {
                Told.Record(
                    key: RecordKey($0["entity"].string ?? "", $0["id"].string ?? ""), version: $0["version"].int ?? -1,
                    isGone: $0["gone"].bool)
            }, version: answer.version, hasMore: answer["hasMore"].bool)
    }

    private static func wire(_ change: Change) -> FieldValue {
        var members: [String: FieldValue] = [
            "changeID": .string(change.id), "sequence": .int(change.sequence),
            "entity": .string(change.record.entity), "id": .string(change.record.id),
            "operation": .string(change.operation.rawValue), "schemaVersion": 1,
            "stamp": .string(change.stamp.description),
            "fields": .object(
                change.fields.mapValues { field in
                    var members: [String: FieldValue] = ["old": field.old ?? .null, "new": field.new]
                    if field.rule != .lastWriter { members["rule"] = .string(field.rule.rawValue) }
                    return .object(members)
                }),
        ]
        if change.operation == .delete { members["fields"] = nil }
        if let base = change.baseVersion { members["baseVersion"] = .int(base) }
        if let unit = change.unit { members["transaction"] = .string(unit) }
        return .object(members)
    }
}

struct ModelAsked: AskedServer {
    let server: ModelServer

    func ask(_ device: String, _ changes: [Change], of scopes: [String: Int64], limit: Int) throws -> Told {
        let answer = try server.answer(
            ExchangeRequest(cycleID: "c", deviceID: device, scopes: scopes, limit: limit, changes: changes))
        return Told(
            results: answer.results.map {
                let (verdict, version) = Self.plain($0.verdict)
                return Told.Result(changeID: $0.changeID, verdict: verdict, version: version)
            },
            records: try answer.page.next(maxRecords: .max, maxBytes: .max).map {
                Told.Record(key: $0.key, version: $0.version, isGone: $0.presence == .gone)
            }, version: answer.currentSyncVersion, hasMore: answer.hasMore)
    }

    private static func plain(_ verdict: Verdict) -> (String, Int64?) {
        switch verdict {
        case .applied(let version, _, _): ("applied", version)
        case .merged(let record): ("merged", record.version)
        case .conflict(let record): ("conflict", record.version)
        case .rejected: ("rejected", nil)
        case .blocked: ("blocked", nil)
        case .retry: ("retry", nil)
        }
    }
}

/// A device that takes the contract's words on versions literally: a record, or a leave, is taken unless its version is below
/// the one held.
struct LiteralClient {
    let name: String
    let server: any AskedServer
    /// The roots asked for, and up to where each is known.
    var scopes: [String: Int64]
    private(set) var held: [RecordKey: Int64] = [:]

    init(_ name: String, _ server: any AskedServer, _ scopes: [String: Int64]) {
        (self.name, self.server, self.scopes) = (name, server, scopes)
    }

    @discardableResult
    mutating func sync(_ changes: [Change] = [], limit: Int = 500) throws -> Told {
        let told = try server.ask(name, changes, of: scopes, limit: limit)
        var raised: Set<RecordKey> = []
        for (change, result) in zip(changes, told.results) {
            let key = change.record
            guard let version = result.version else { continue }
            switch result.verdict {
            case "applied":
                guard held[key] == change.baseVersion || raised.contains(key) else { continue }
                held[key] = version
                raised.insert(key)
            case "merged", "conflict": if version >= held[key] ?? 0 { held[key] = version }
            default: break
            }
        }
        for record in told.records where record.version >= held[record.key] ?? 0 {
            held[record.key] = record.isGone ? nil : record.version
        }
        for scope in scopes.keys { scopes[scope] = max(scopes[scope] ?? 0, told.version) }
        return told
    }

    /// Asks on until nothing more is told; each page must bring something, or come further.
    mutating func pull(limit: Int = 500) throws -> [String] {
        var pages: [String] = []
        while true {
            let before = scopes
            let told = try sync(limit: limit)
            pages += told.page
            guard told.hasMore else { return pages }
            try #require(scopes != before, "more without progress")
        }
    }
}
