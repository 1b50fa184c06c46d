import SyncCore

/// One id for each record, whoever names it.
///
/// Where the server of a seed makes its own ids, it makes them of the devices': the same text with a letter in front
/// (Decision 476). So a record has two ids and one canonical form, the one without the letter, by which all checks go, and none
/// of them needs the map that is on trial. Elsewhere every id stays as it is.
struct CanonicalIDs: Sendable {
    /// Says which fields are references; `nil` where the server takes the devices' ids.
    private let schema: Schema?

    init(_ schema: Schema? = nil) { self.schema = schema }

    /// Whether the server makes ids.
    var areTwo: Bool { schema != nil }

    /// No id of a device begins with it.
    private static let mark: Character = "S"

    /// What the server calls a record that a device calls so; what has the server's id already keeps it.
    static func server(_ id: String) -> String { id.first == mark ? id : "\(mark)\(id)" }

    func id(_ id: String) -> String { areTwo && id.first == Self.mark ? String(id.dropFirst()) : id }

    func key(_ key: RecordKey) -> RecordKey { areTwo ? RecordKey(key.entity, id(key.id)) : key }

    func value(_ value: FieldValue, of field: FieldSchema?) -> FieldValue {
        guard areTwo, field?.reference != nil, case .string(let id) = value else { return value }
        return .string(self.id(id))
    }

    func fields(_ fields: [String: FieldValue], of entity: String) -> [String: FieldValue] {
        guard let declared = schema?[entity] else { return fields }
        return Dictionary(uniqueKeysWithValues: fields.map { ($0, value($1, of: declared.field($0))) })
    }

    func record(_ record: ServerRecord) -> ServerRecord {
        guard areTwo else { return record }
        var record = record
        record.fields = fields(record.fields, of: record.key.entity)
        record.key = key(record.key)
        return record
    }

    func change(_ change: Change) -> Change {
        guard let declared = schema?[change.record.entity] else { return change }
        var change = change
        for field in declared.fields where field.reference != nil {
            guard var delta = change.fields[field.name] else { continue }
            delta.new = value(delta.new, of: field)
            delta.old = delta.old.map { value($0, of: field) }
            change.fields[field.name] = delta
        }
        change.record = key(change.record)
        return change
    }

    func request(_ request: ExchangeRequest) -> ExchangeRequest {
        guard areTwo else { return request }
        var request = request
        request.changes = request.changes.map(change)
        return request
    }

    /// The request, cut before each change of a record of which, under its other name, something was not done before. A device that holds one record as
    /// two has changes of both, and to the server none of them is about the other (seed 32475). What follows a `retry` in strict order waits
    /// for that, whatever it is about (seed 54192).
    func parts(
        of request: ExchangeRequest, isDone: (String) -> Bool, isRetried: (String) -> Bool
    ) -> [ExchangeRequest] {
        guard areTwo else { return [request] }
        var parts: [[Change]] = [[]]
        var names: [RecordKey: String] = [:]
        var stands = false
        for change in request.changes {
            let record = key(change.record)
            stands = stands || request.isStrict && isRetried(change.id)
            if !stands, let name = names[record], name != change.record.id {
                parts.append([])
                names = [:]
            }
            if names[record] == nil, !isDone(change.id) { names[record] = change.record.id }
            parts[parts.count - 1].append(change)
        }
        return parts.map { changes in
            var part = request
            part.changes = changes
            return self.request(part)
        }
    }

    /// The verdicts; the page stays as it is.
    func verdicts(_ answer: ExchangeAnswer, of request: ExchangeRequest) -> ExchangeAnswer {
        guard areTwo else { return answer }
        var answer = answer
        let entities = Dictionary(
            request.changes.map { ($0.id, $0.record.entity) }, uniquingKeysWith: { first, _ in first })
        answer.results = answer.results.map { result in
            var result = result
            result.verdict = verdict(result.verdict, of: entities[result.changeID] ?? "")
            return result
        }
        return answer
    }

    private func verdict(_ verdict: Verdict, of entity: String) -> Verdict {
        switch verdict {
        case .applied(let version, let overwrote, let serverID):
            return .applied(version: version, overwrote: fields(overwrote, of: entity), serverID: serverID)
        case .merged(let record): return .merged(record: self.record(record))
        case .conflict(let record): return .conflict(record: self.record(record))
        case .rejected(var rejection):
            rejection.reference = rejection.reference.map(id)
            return .rejected(rejection)
        case .blocked, .retry: return verdict
        }
    }
}
