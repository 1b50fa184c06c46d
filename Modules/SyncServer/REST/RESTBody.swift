internal import SyncCore

/// The fields of a REST write: from a JSON body, or from the query.
struct RESTBody {
    let entity: ServerEntity
    let limits: ServerLimits
    let protectedFields: Set<String>

    /// What a write says.
    struct Content {
        /// The id in a create's body.
        var id: String?
        /// In the order of their names.
        var fields: [(name: String, value: FieldValue)] = []
        /// The fields that came as text, whose kind the record's present values decide.
        var texts: Set<String> = []
    }

    func read(_ request: RESTRequest) throws(Problem) -> Content {
        guard request.body.count <= limits.requestBytes else {
            throw .tooLarge("the request has more than \(limits.requestBytes) bytes")
        }
        var content = Content()
        if !request.body.isEmpty { try json(request, into: &content) }
        try query(request.query, into: &content)
        content.fields.sort { $0.name < $1.name }
        for (index, field) in content.fields.enumerated().dropFirst() where content.fields[index - 1].name == field.name
        {
            throw .malformed("the field \(field.name) is told twice")
        }
        for field in content.fields { try check(field.name, field.value) }
        return content
    }

    private func json(_ request: RESTRequest, into content: inout Content) throws(Problem) {
        if let type = request[header: "Content-Type"] {
            let media = type.prefix { $0 != ";" && $0 != " " }.lowercased()
            guard media == "application/json" else {
                throw Problem(status: 415, code: "unsupportedMediaType", detail: "the body is application/json")
            }
        }
        do {
            var reader = JSONReader(request.body, maximumDepth: limits.depth)
            reader.refusesUnfitNumbers = false
            reader.wantsStreamSafeNames = true
            try reader.beginObject()
            while let name = try reader.nextKey() {
                let value = try reader.readValue()
                if let unfit = reader.takeUnfit() {
                    throw unfit.kind == .text
                        ? Self.longName
                        : Problem(
                            status: 422, code: "invalid", detail: "\(name): a number beyond 64 bits, or no base64")
                }
                if name == "id" {
                    guard case .string(let id) = value else {
                        throw Problem(status: 422, code: "invalid", detail: "the id is no text")
                    }
                    content.id = id
                } else {
                    content.fields.append((name, value))
                }
            }
            try reader.finish()
        } catch let problem as Problem {
            throw problem
        } catch {
            throw .malformed("the body is no JSON object that can be read: \(error)")
        }
    }

    private static let longName = Problem(
        status: 422, code: "invalid", detail: "a name has more than \(String.mostMarks) marks in a row")

    private func query(_ query: String, into content: inout Content) throws(Problem) {
        guard let items = FormCoding.items(query) else { throw .malformed("the query is not form-encoded UTF-8") }
        for item in items {
            guard item.name.isStreamSafe else { throw Self.longName }
            if item.name == "id" {
                content.id = item.value
                continue
            }
            content.fields.append((item.name, try value(item, &content)))
        }
    }

    private func value(_ item: FormCoding.Item, _ content: inout Content) throws(Problem) -> FieldValue {
        guard let kind = entity.queryKinds[item.name] else {
            content.texts.insert(item.name)
            return .string(item.value)
        }
        if kind == .text { return .string(item.value) }
        if item.value.isEmpty || item.value == "null" { return .null }
        if let value = Self.value(of: item.value, as: kind, depth: limits.valueDepth) { return value }
        throw Problem(status: 422, code: "invalid", detail: "\(item.name): \(item.value) is no \(kind.rawValue)")
    }

    /// A query's text as the kind that is wanted; `nil` if it is none, or has more levels than `depth`.
    static func value(of text: String, as kind: ServerEntity.QueryKind, depth: Int) -> FieldValue? {
        if kind == .text { return .string(text) }
        do {
            var reader = JSONReader(text, maximumDepth: depth)
            reader.wantsStreamSafeNames = true
            let value = try reader.readValue()
            try reader.finish()
            switch (kind, value) {
            case (.json, _), (.boolean, .bool), (.number, .int), (.number, .double): return value
            default: return nil
            }
        } catch {  // kept: a text that is no such value is refused in so many words
            return nil
        }
    }

    private func check(_ name: String, _ value: FieldValue) throws(Problem) {
        if protectedFields.contains(name) {
            throw Problem(status: 422, code: "invalid", detail: "\(name) is the server's own")
        }
        guard Self.isWithin(limits.valueDepth, value) else {
            throw Problem(
                status: 422, code: "invalid", detail: "\(name) has more than \(limits.valueDepth) levels")
        }
        var writer = JSONWriter()
        do {
            try writer.value(value)
        } catch {
            throw Problem(status: 422, code: "invalid", detail: "\(name) holds no number")
        }
        if writer.count > limits.fieldBytes {
            throw .tooLarge("\(name) has more than \(limits.fieldBytes) bytes")
        }
    }

    /// Whether a value holds no more containers within containers than `levels`; as deep as the reader lets it be.
    private static func isWithin(_ levels: Int, _ value: FieldValue) -> Bool {
        switch value {
        case .null, .bool, .int, .double, .string: true
        case .data: levels > 0
        case .array(let elements): levels > 0 && elements.allSatisfy { isWithin(levels - 1, $0) }
        case .object(let members): levels > 0 && members.values.allSatisfy { isWithin(levels - 1, $0) }
        }
    }
}
