import HTTPTypes
import SyncCore

/// What an answer decides about one change.
enum RESTVerdict {
    /// A verdict that the server itself is proved to have spoken.
    case decided(Verdict)
    /// The record has moved on, and the answer did not bring it.
    case movedOn
    /// No verdict.
    case failed(ExchangeFailure)

    init(
        _ answer: Answer, to change: Change, mapping: RESTMapping, table: FailureTable, nowMilliseconds: Int64
    ) {
        let problem = answer.problem(codeMember: mapping.errorCodeMember)
        if let failure = ExchangeFailure(
            answer, problem: problem, table: table, target: .change, nowMilliseconds: nowMilliseconds)
        {
            self = Self.judge(failure, problem, change, mapping)
            return
        }
        if answer.body.count == 0 {
            guard change.operation == .delete || mapping.answersEmpty else {
                self = .failed(Self.foreign(answer, "the record"))
                return
            }
            self = .decided(.applied(version: Self.etag(answer), overwrote: [:], serverID: nil))
            return
        }
        guard answer.mediaType == "application/json",
            let record = Self.members(of: answer.body), case .string(let id)? = record[mapping.idMember],
            RecordKey.isValidID(id)
        else {
            self = .failed(Self.foreign(answer, "JSON that holds the record's id"))
            return
        }
        let isOwn = id == change.record.id
        guard isOwn || mapping.serverMakesIDs && change.operation == .create else {
            self = .failed(Self.foreign(answer, "the record's own id"))
            return
        }
        // What is made under something dead is dead as it is made.
        if isOwn, record["deleted"] == .bool(true),
            let dead = Self.record(.object(record), for: change, mapping: mapping)
        {
            self = .decided(.merged(record: dead))
            return
        }
        let version = Self.version(record, mapping) ?? Self.etag(answer)
        self = .decided(.applied(version: version, overwrote: [:], serverID: isOwn ? nil : id))
    }

    /// A record as the server tells it flat: its id, its version, and its fields beside them.
    static func record(_ value: FieldValue?, for change: Change, mapping: RESTMapping) -> ServerRecord? {
        guard case .object(var members)? = value, let version = version(members, mapping), version > 0 else {
            return nil
        }
        if case .string(let id)? = members[mapping.idMember], id != change.record.id { return nil }
        // The batch dialect's shape is taken too: a server that speaks both need not tell records in two ways.
        var presence = ServerRecord.Presence.live
        if case .bool(true)? = members["deleted"] { presence = .deleted }
        if case .object(let fields)? = members["fields"], members["entity"] != nil {
            members = fields
        } else {
            for member in [mapping.idMember, mapping.versionMember, "deleted", "entity"] { members[member] = nil }
        }
        return ServerRecord(key: change.record, version: version, presence: presence, fields: members)
    }

    /// The members of a body that is one JSON object.
    static func members(of body: AnswerBody) -> [String: FieldValue]? {
        var reader = JSONReader(body.bytes)
        do throws(JSONFailure) {
            guard case .object(let members) = try reader.readValue() else { return nil }
            try reader.finish()
            return members
        } catch {  // kept: the caller tells of a body that is none
            return nil
        }
    }

    private static func judge(
        _ failure: ExchangeFailure, _ problem: Problem?, _ change: Change, _ mapping: RESTMapping
    ) -> RESTVerdict {
        switch failure.kind {
        case .conflict:
            guard let record = record(problem?.record, for: change, mapping: mapping) else { return .movedOn }
            return .decided(.conflict(record: record))
        case .permanent where failure.code == "keyReused" && mapping.parent != nil && change.operation != .create:
            // The content is that of the first try, so it is the path that was another: the record stood elsewhere then.
            let message = "it was decided when its record was known under another parent"
            return .decided(.rejected(Rejection(code: .expired, message: message)))
        case .permanent:
            // The class is given to proved answers only, so the code is there.
            return .decided(
                .rejected(
                    Rejection(
                        code: Rejection.Code(rawValue: failure.code ?? "invalid"),
                        message: problem?.detail ?? failure.message, field: problem?.field,
                        reference: problem?.reference)))
        case .network, .temporary, .temporaryLonger, .authentication, .tooLarge, .history, .unknown:
            return .failed(failure)
        }
    }

    private static func foreign(_ answer: Answer, _ expected: String) -> ExchangeFailure {
        ExchangeFailure(
            kind: .network, status: answer.status,
            message: CauseText.ofNoAnswer(
                expected: expected,
                came: "\(answer.status) with \(answer.mediaType ?? "no type"), "
                    + Redaction.beginning(of: answer.body)))
    }

    private static func version(_ members: [String: FieldValue], _ mapping: RESTMapping) -> Int64? {
        guard case .int(let version)? = members[mapping.versionMember] else { return nil }
        return version
    }

    /// The version in an `ETag`, quotes off.
    private static func etag(_ answer: Answer) -> Int64? {
        guard let tag = answer.head.headerFields[.eTag], tag.utf8.count > 2, tag.hasPrefix("\""), tag.hasSuffix("\"")
        else { return nil }
        return Int64(tag.dropFirst().dropLast())
    }
}
