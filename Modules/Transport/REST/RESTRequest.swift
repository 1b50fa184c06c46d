import HTTPTypes
import SyncCore

/// One change as one request (PROTOCOL.md, section 2), or the reason why there is none.
struct RESTRequest: Sendable {
    var request: HTTPRequest
    var body: [UInt8]

    /// - Parameter parentID: the parent's id, where the mapping goes through it and the change does not name it; where nobody knows it, the
    ///   record's own path is asked.
    init(
        _ change: Change, deviceID: String, mapping: RESTMapping, endpoint: Endpoint, parentID: String?
    ) throws(Rejection) {
        guard change.unit == nil else {
            throw Rejection(code: .transaction, message: "one request for each change cannot carry a unit")
        }
        var path = try Self.collectionPath(change, mapping, parentID)
        if change.operation != .create { path += "/" + (try Self.segment(change.record.id)) }
        body = []
        let method: HTTPRequest.Method
        do throws(JSONFailure) {
            switch change.operation {
            case .create:
                method = .post
                body = try Self.json(change, withID: mapping.serverMakesIDs ? nil : mapping.idMember)
            case .update:
                method = .put
                switch mapping.updates {
                case .json: body = try Self.json(change, withID: nil)
                case .query: path += "?" + (try Self.query(change))
                }
            case .delete: method = .delete
            }
        } catch {
            throw Rejection(code: .invalid, message: "a value has no form in JSON: \(error)")
        }
        request = endpoint.request(method, path)
        request.headerFields[.accept] = "application/json, application/problem+json"
        if !body.isEmpty { request.headerFields[.contentType] = "application/json" }
        request.headerFields[.idempotencyKey] = "\"\(change.id)\""
        request.headerFields[.syncDevice] = change.deviceID ?? deviceID
        if mapping.usesIfMatch, change.operation != .create, let version = change.baseVersion {
            request.headerFields[.ifMatch] = "\"\(version)\""
        }
    }

    /// The request that reads the record of a change.
    static func read(
        _ change: Change, mapping: RESTMapping, endpoint: Endpoint, parentID: String?
    ) throws(Rejection) -> HTTPRequest {
        let path = try collectionPath(change, mapping, parentID) + "/" + segment(change.record.id)
        var request = endpoint.request(.get, path)
        request.headerFields[.accept] = "application/json, application/problem+json"
        return request
    }

    private static func collectionPath(
        _ change: Change, _ mapping: RESTMapping, _ parentID: String?
    ) throws(Rejection) -> String {
        guard let parent = mapping.parent else { return "\(mapping.prefix)/\(mapping.collection)" }
        // A move goes through the parent that the server knows the record under.
        let delta = change.fields[parent.field]
        let known = change.operation == .create ? delta?.new : delta?.old
        let id: String? = if case .string(let id)? = known { id } else { parentID }
        guard let id else {
            // Whether there is such a record the server says; it may be dead here, or of a history that is over.
            if change.operation != .create { return "\(mapping.prefix)/\(mapping.collection)" }
            throw Rejection(
                code: .invalid, message: "the id of the parent is not known here", field: parent.field)
        }
        return "\(mapping.prefix)/\(parent.collection)/\(try segment(id))/\(mapping.collection)"
    }

    /// An id as a part of a path; `.` and `..` are ids, but would be steps.
    private static func segment(_ id: String) throws(Rejection) -> String {
        guard RecordKey.isValidID(id), id != ".", id != ".." else {
            throw Rejection(code: .invalid, message: "an id that no path can carry")
        }
        return id
    }

    private static func json(_ change: Change, withID member: String?) throws(JSONFailure) -> [UInt8] {
        var members = change.fields.mapValues(\.new)
        if let member { members[member] = .string(change.record.id) }
        var writer = JSONWriter()
        try writer.members(members)
        return writer.bytes
    }

    private static func query(_ change: Change) throws(JSONFailure) -> String {
        var pairs: [String] = []
        for (name, delta) in change.fields.inByteOrder {
            let value: String =
                switch delta.new {
                case .null: ""
                case .string(let text): text
                default: try delta.new.jsonText()
                }
            pairs.append(formEncoded(name) + "=" + formEncoded(value))
        }
        return pairs.joined(separator: "&")
    }

    /// `application/x-www-form-urlencoded` (URL Standard, section 5.2).
    static func formEncoded(_ text: String) -> String {
        let hex = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                bytes.append(byte)
            case 0x20: bytes.append(UInt8(ascii: "+"))
            default: bytes += [UInt8(ascii: "%"), hex[Int(byte >> 4)], hex[Int(byte & 0xf)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
