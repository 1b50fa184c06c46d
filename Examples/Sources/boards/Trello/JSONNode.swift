import SyncCore

/// A value of an export with its place in the file, so that a complaint can name it.
struct JSONNode: Sendable {
    let value: FieldValue
    /// Where it stands, such as `cards[3].name`.
    let place: String

    /// The member of this name; `nil` where there is none or it is `null`.
    subscript(name: String) -> JSONNode? {
        guard case .object(let members) = value, let member = members[name], !member.isNull else { return nil }
        return JSONNode(value: member, place: place.isEmpty ? name : "\(place).\(name)")
    }

    var isObject: Bool {
        if case .object = value { true } else { false }
    }

    /// The elements of an array.
    func elements() throws(Problem) -> [JSONNode] {
        guard case .array(let elements) = value else { throw notAnExport("\(place) is no list") }
        return elements.enumerated().map { JSONNode(value: $1, place: "\(place)[\($0)]") }
    }

    /// The text here.
    func text() throws(Problem) -> String {
        guard case .string(let text) = value else { throw notAnExport("\(place) is no text") }
        return text
    }

    /// The member `id`, checked.
    func id() throws(Problem) -> String {
        guard let node = self["id"] else { throw notAnExport("\(place.isEmpty ? "it" : place) has no id") }
        guard let id = RecordID.read(try node.text()) else { throw notAnExport("\(node.place) cannot be an id") }
        return id
    }

    /// The id under the member `name`, if it is there and can be one.
    func reference(_ name: String) -> String? {
        guard case .string(let text)? = self[name]?.value else { return nil }
        return RecordID.read(text)
    }

    /// The declared fields of `entity` that stand here, each of its type; what is absent or `null` is left out.
    func fields(of entity: EntitySchema) throws(Problem) -> [String: FieldValue] {
        var fields: [String: FieldValue] = [:]
        for field in entity.fields {
            guard let node = self[field.name] else { continue }
            fields[field.name] = try FieldReader(entity: entity.name, field: field, place: node.place)
                .value(ofJSON: node.value)
        }
        return fields
    }
}

/// The complaint about a file that is no usable export.
func notAnExport(_ reason: String) -> Problem {
    Problem("This file is not a Trello board export that can be read: \(reason).")
}
