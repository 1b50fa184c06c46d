internal import SyncCore

/// Answers `GET`: a record, or a list by key.
struct RESTReading {
    let service: SyncService
    let state: SyncService.State
    let account: AccountContext

    private var reader: RecordReader {
        RecordReader(store: state.store, account: account, rules: service.rules)
    }

    func answer(_ path: RESTPath, _ request: RESTRequest) throws -> ServerReply {
        let question = try Question(request, limits: service.configuration.limits)
        switch path {
        case .record(let key): return try record(key, question, request)
        case .child(let key, let parent):
            guard try reader.stands(key, under: parent) else { throw Problem.notFound }
            return try record(key, question, request)
        case .collection(let entity):
            return try list(question, request) { body in
                try reader.list(
                    entity, since: question.since, after: question.after, limit: question.limit + 1, body)
            }
        case .children(let parent, let entity):
            guard let above = try reader.record(parent), !above.isDead || question.since > 0 else {
                throw Problem.notFound
            }
            return try list(question, request) { body in
                try reader.list(
                    entity, under: parent, since: question.since, after: question.after, limit: question.limit + 1, body
                )
            }
        }
    }

    /// What a query asks for.
    private struct Question {
        var since: Int64 = 0
        var after = ""
        var limit: Int
        var fields: [String]?

        init(_ request: RESTRequest, limits: ServerLimits) throws(Problem) {
            limit = limits.greatestPage
            guard let items = FormCoding.items(request.query) else {
                throw .malformed("the query is not form-encoded UTF-8")
            }
            for item in items {
                guard item.name.isStreamSafe, item.value.isStreamSafe else {
                    throw .malformed("more than \(String.mostMarks) marks in a row")
                }
                switch item.name {
                case "since":
                    guard let number = Int64(item.value), number >= 0 else { throw .malformed("since is no version") }
                    since = number
                case "limit":
                    guard let number = Int(item.value), number >= 1 else { throw .malformed("limit is below 1") }
                    limit = min(number, limits.greatestPage)
                case "after": after = item.value
                case "fields":
                    if item.value != "all" { fields = item.value.split(separator: ",").map(String.init) }
                default: continue
                }
            }
        }

        /// The last activity changes without the version, so who asks for it always gets it.
        var hasTag: Bool { !(fields?.contains("dateLastActivity") ?? false) }
    }

    private func record(_ key: RecordKey, _ question: Question, _ request: RESTRequest) throws -> ServerReply {
        guard let record = try reader.record(key), !record.isDead else { throw Problem.notFound }
        let tag = Preconditions.tag(record.version)
        if question.hasTag {
            let isKnown = question.since > 0 && record.version <= question.since
            if isKnown || Preconditions.isUnchanged(ifNoneMatch: request[header: "If-None-Match"], tag: tag) {
                return ServerReply(status: 304, headers: [.init("ETag", tag)])
            }
        }
        var writer = JSONWriter(capacity: 256 + record.fields.utf8.count)
        try record.write(only: question.fields, into: &writer)
        return json(writer, tag: question.hasTag ? tag : nil)
    }

    private func list(
        _ question: Question, _ request: RESTRequest, _ read: ((FlatRecord) throws -> Bool) throws -> Void
    ) throws -> ServerReply {
        let tag = Preconditions.tag(account.head)
        if question.hasTag, Preconditions.isUnchanged(ifNoneMatch: request[header: "If-None-Match"], tag: tag) {
            return ServerReply(status: 304, headers: [.init("ETag", tag)])
        }
        var writer = JSONWriter(capacity: 1_024)
        writer.beginArray()
        var last: String?
        var count = 0
        var hasMore = false
        try read { record in
            hasMore = count >= question.limit || writer.bytes.count > service.configuration.limits.pageBytes
            guard !hasMore else { return false }
            try record.write(only: question.fields, into: &writer)
            last = record.key.id
            count += 1
            return true
        }
        writer.endArray()
        var reply = json(writer, tag: question.hasTag ? tag : nil)
        if hasMore, let last { reply.headers.append(.init("Link", next(after: last, request))) }
        reply.headers.append(.init("Sync-Version", "\(account.head)"))
        return reply
    }

    /// Where the list goes on (RFC 8288), since an answer has a bound whatever the question says.
    private func next(after last: String, _ request: RESTRequest) -> String {
        let others = request.query.split(separator: "&").filter { !$0.hasPrefix("after=") }.map(String.init)
        return "<\(request.path)?\((others + ["after=" + last]).joined(separator: "&"))>; rel=\"next\""
    }

    private func json(_ writer: JSONWriter, tag: String?) -> ServerReply {
        var headers: [ServerReply.Header] = [.init("Content-Type", "application/json")]
        if let tag { headers.append(.init("ETag", tag)) }
        return ServerReply(status: 200, headers: headers, body: writer.bytes)
    }
}
