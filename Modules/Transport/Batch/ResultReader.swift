import SyncCore

/// A verdict as it is told: members may be missing until ``result(for:among:)`` has judged it.
struct ToldResult {
    var changeID: String?
    private var verdict: String?
    private var first: String?
    private var version: Int64?
    private var overwrote: [String: FieldValue] = [:]
    private(set) var serverID: String?
    private var isClamped = false
    private var record: ToldRecord?
    private var rejection: Rejection?
    private var by: String?
    private var retryAfter: Double?

    /// Reads one of the `results`; unknown members are passed over.
    init(_ reader: inout JSONReader) throws(AnswerFault) {
        try reading { () throws(JSONFailure) in try reader.beginObject() }
        while let name = try reading({ () throws(JSONFailure) in try reader.nextKey() }) {
            if name == "record" {
                let isNull = try reading { () throws(JSONFailure) in try reader.readNull() }
                if !isNull { record = try ToldRecord(&reader) }
                continue
            }
            try reading { () throws(JSONFailure) in try readMember(name, &reader) }
        }
    }

    private mutating func readMember(_ name: String, _ reader: inout JSONReader) throws(JSONFailure) {
        switch name {
        case "changeID": changeID = try reader.readString()
        case "verdict": verdict = try reader.readString()
        case "first": first = try reader.readNull() ? nil : reader.readString()
        case "version": version = try reader.readNull() ? nil : reader.readInt()
        case "serverID": serverID = try reader.readNull() ? nil : reader.readString()
        case "clamped": isClamped = try reader.readNull() ? false : reader.readBool()
        case "by": by = try reader.readNull() ? nil : reader.readString()
        case "retryAfter": retryAfter = try reader.readNull() ? nil : reader.readDouble()
        case "error": rejection = try reader.readNull() ? nil : Self.readRejection(&reader)
        case "overwrote":
            guard try !reader.readNull() else { return }
            overwrote = try reader.readMembers()
        default: try reader.skipValue()
        }
    }

    private static func readRejection(_ reader: inout JSONReader) throws(JSONFailure) -> Rejection? {
        var code: String?
        var rejection = Rejection(code: .invalid, message: "")
        try reader.beginObject()
        while let name = try reader.nextKey() {
            switch name {
            case "code": code = try reader.readString()
            case "message": rejection.message = try reader.readNull() ? "" : reader.readString()
            case "field": rejection.field = try reader.readNull() ? nil : reader.readString()
            case "reference": rejection.reference = try reader.readNull() ? nil : reader.readString()
            default: try reader.skipValue()
            }
        }
        guard let code, !code.isEmpty else { return nil }
        rejection.code = Rejection.Code(rawValue: code)
        return rejection
    }

    /// Whether the record beside the verdict stands under an id that is not known, by now, to be that of the change's own.
    func namesRecord(otherThan change: Change, _ names: ToldNames) -> Bool {
        record?.isOther(than: change, names) ?? false
    }

    /// The verdict about `change`, if it is one of the contract's shape.
    ///
    /// - Parameters:
    ///   - asked: the keys of all changes of the request, one of which a `blocked` must name.
    ///   - names: the ids that the answer gives to what the request creates.
    func result(
        for change: Change, among asked: some Collection<String>, _ names: ToldNames = ToldNames()
    ) throws(AnswerFault) -> ChangeResult {
        guard let verdict else { throw AnswerFault("a verdict", "none") }
        let isDuplicate = verdict == "duplicate"
        let judged: Verdict
        if isDuplicate {
            guard let first else { throw AnswerFault("the first verdict of a duplicate", "none") }
            judged = try self.verdict(named: first, for: change, among: asked, names)
            guard judged.isDecided else { throw AnswerFault("a decided first verdict of a duplicate", first) }
        } else {
            judged = try self.verdict(named: verdict, for: change, among: asked, names)
        }
        var result = ChangeResult(changeID: change.id, verdict: judged, isDuplicate: isDuplicate, isClamped: isClamped)
        switch judged {
        case .merged, .conflict, .rejected: result.serverID = serverID
        case .applied, .blocked, .retry: break
        }
        return result
    }

    private func verdict(
        named name: String, for change: Change, among asked: some Collection<String>, _ names: ToldNames
    ) throws(AnswerFault) -> Verdict {
        switch name {
        case "applied":
            if let version, version <= 0 { throw AnswerFault("a version above 0", "\(version)") }
            try checkServerID()
            return .applied(version: version, overwrote: overwrote, serverID: serverID)
        case "merged":
            try checkServerID()
            return .merged(record: try recordBeside(name, change, names))
        case "conflict":
            try checkServerID()
            return .conflict(record: try recordBeside(name, change, names))
        case "rejected":
            try checkServerID()
            guard let rejection else { throw AnswerFault("an error with a code beside rejected", "none") }
            return .rejected(rejection)
        case "blocked":
            guard let by else { throw AnswerFault("the key that blocks", "none") }
            guard by != change.id, asked.contains(by) else {
                throw AnswerFault("another change of this request as the one that blocks", "a foreign key")
            }
            return .blocked(by: by)
        case "retry":
            let seconds = retryAfter.flatMap { $0 >= 0 ? min($0, ServerPause.cap) : nil }
            return .retry(afterSeconds: seconds)
        default: throw AnswerFault("one of the contract's verdicts", Redaction.beginning(of: Array(name.utf8)))
        }
    }

    private func checkServerID() throws(AnswerFault) {
        if let serverID, !RecordKey.isValidID(serverID) { throw AnswerFault("an id as serverID", "another text") }
    }

    private func recordBeside(
        _ name: String, _ change: Change, _ names: ToldNames
    ) throws(AnswerFault) -> ServerRecord {
        guard let record else { throw AnswerFault("the record beside \(name)", "none") }
        return try record.record(for: change, names)
    }
}
