import Foundation
import SyncCore
import SyncTesting

/// A small REST server for notes that has a bad day: a real one, over HTTP, on a free port of this machine.
///
/// What it does with a request is ordinary (a key has one outcome, a record has a version); what happens to the request
/// on its way is written down below, request by request. It is the hostile server of `SyncTesting`, that your own tests
/// may use as well.
final class NotesServer: @unchecked Sendable {
    // Sendable: everything that changes is read and written under `lock` alone.
    private let lock = NSLock()
    private var notes: [String: Note] = [:]
    /// The outcome of each key, so that what is sent twice is done once.
    private var outcomes: [String: [UInt8]] = [:]
    private var lastVersion: Int64 = 0
    private var done = 0

    private struct Note {
        var fields: [String: FieldValue]
        var version: Int64
    }

    /// Starts it; ``HostileServer/stop()`` must be called at the end.
    func start() throws -> HostileServer {
        let works = HostileScript([.answer { self.answer($0) }])
        return try HostileServer([
            // The first note: nobody is there …
            .closedUnanswered,
            // … then the server does its work, and the connection breaks before it can say so …
            HostileScript([.answer { self.answerNobody($0) }, .reset]),
            // … and the third time everything works.
            works,
            // The second note: too busy, please wait a second …
            .answer(status: 503, headers: ["Retry-After: 1"], "come back later"),
            // … then the token has expired, so a new one is fetched and the request sent again.
            .answer(status: 401, type: "application/problem+json", #"{"code":"unauthorized"}"#),
            works, works,
            // Somebody else votes for the groceries just before the next request comes.
            HostileScript([.answer { self.vote("groceries", 10, then: $0) }]),
            works,
        ])
    }

    /// The notes as they are now: id and fields.
    var contents: [String: [String: FieldValue]] { lock.withLock { notes.mapValues(\.fields) } }

    /// How many changes had an effect.
    var effects: Int { lock.withLock { done } }

    // MARK: What it does with a request

    private func answer(_ request: HostileRequest) -> [UInt8] { lock.withLock { decide(request) } }

    private func answerNobody(_ request: HostileRequest) -> [UInt8] {
        _ = answer(request)
        return []
    }

    private func vote(_ id: String, _ votes: Int64, then request: HostileRequest) -> [UInt8] {
        lock.withLock {
            if case .int(let present)? = notes[id]?.fields["votes"] {
                notes[id]?.fields["votes"] = .int(present + votes)
                lastVersion += 1
                notes[id]?.version = lastVersion
            }
            return decide(request)
        }
    }

    private func decide(_ request: HostileRequest) -> [UInt8] {
        let key = request.headers["idempotency-key"] ?? ""
        if let known = outcomes[key] { return known }
        let id = request.path.split(separator: "/").dropFirst(2).first.map(String.init)
        switch request.method {
        case "POST": return create(request, key)
        case "PUT": return update(id ?? "", request, key)
        case "DELETE":
            notes[id ?? ""] = nil
            return keep(key, HostileScript.head(204, "text/plain", ["Content-Length: 0"]))
        default: return respond(404, "application/problem+json", ["code": "notFound"])
        }
    }

    private func create(_ request: HostileRequest, _ key: String) -> [UInt8] {
        var fields = read(request.body)
        guard case .string(let id)? = fields.removeValue(forKey: "id") else {
            return respond(400, "application/problem+json", ["code": "malformed"])
        }
        guard fields["text"] != "BUY NOW" else {
            return respond(
                422, "application/problem+json",
                ["code": "invalid", "field": "text", "detail": "This notebook takes no advertising."])
        }
        lastVersion += 1
        notes[id] = Note(fields: fields, version: lastVersion)
        return keep(key, respond(201, "application/json", record(id)))
    }

    private func update(_ id: String, _ request: HostileRequest, _ key: String) -> [UInt8] {
        guard let note = notes[id] else { return respond(404, "application/problem+json", ["code": "notFound"]) }
        if let wanted = request.headers["if-match"], wanted != "\"\(note.version)\"" {
            return respond(
                412, "application/problem+json", ["code": "preconditionFailed", "record": .object(record(id))])
        }
        lastVersion += 1
        notes[id] = Note(fields: note.fields.merging(read(request.body)) { $1 }, version: lastVersion)
        return keep(key, respond(200, "application/json", record(id)))
    }

    private func keep(_ key: String, _ answer: [UInt8]) -> [UInt8] {
        outcomes[key] = answer
        done += 1
        return answer
    }

    private func record(_ id: String) -> [String: FieldValue] {
        let note = notes[id]
        let own: [String: FieldValue] = ["id": .string(id), "version": .int(note?.version ?? 0)]
        return own.merging(note?.fields ?? [:]) { own, _ in own }
    }

    private func read(_ body: [UInt8]) -> [String: FieldValue] {
        var reader = JSONReader(body)
        do {
            guard case .object(let members) = try reader.readValue() else { return [:] }
            return members
        } catch {
            return [:]
        }
    }

    private func respond(_ status: Int, _ type: String, _ members: [String: FieldValue]) -> [UInt8] {
        var writer = JSONWriter()
        do { try writer.members(members) } catch { return HostileScript.head(500, "text/plain", ["Content-Length: 0"]) }
        return HostileScript.head(status, type, ["Content-Length: \(writer.bytes.count)"]) + writer.bytes
    }
}
