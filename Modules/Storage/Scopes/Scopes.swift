import GRDB
import SyncCore

/// The roots that this device asks for, each with its checkpoint, and those that are on their way out (DL-21); in `sync_meta`.
///
/// Without an entry everything that the account may see is asked for.
struct Scopes: Hashable {
    /// `board:8f2e…`: everything of the root up to this version is here.
    var asked: [String: Int64]
    /// Not asked for any more; rows with unsent changes are still here.
    var leaving: Set<String> = []

    static func read(_ db: Database) throws -> Scopes? { try Scopes(json: Meta.text(db, .scopes)) }

    init(asked: [String: Int64], leaving: Set<String> = []) {
        self.asked = asked
        self.leaving = leaving
    }

    /// As the file has it; `nil` where everything is asked for.
    init?(json: String?) throws {
        guard let json, case .object(let members) = try FieldValue(json: json) else { return nil }
        asked = [:]
        if case .object(let asked)? = members["asked"] {
            for case (let name, .int(let checkpoint)) in asked { self.asked[name] = checkpoint }
        }
        if case .array(let leaving)? = members["leaving"] {
            for case .string(let name) in leaving { self.leaving.insert(name) }
        }
    }

    func write(_ db: Database) throws {
        let value: FieldValue = .object([
            "asked": .object(asked.mapValues(FieldValue.int)),
            "leaving": .array(leaving.sorted().map(FieldValue.string)),
        ])
        try Meta.set(db, .scopes, value.jsonText())
    }

    /// Whether a slice was asked for exactly what is asked for now, from no further than it is here.
    func covers(_ slice: PageSlice) -> Bool {
        guard let from = slice.scopes, from.count == asked.count else { return false }
        return from.allSatisfy { name, checkpoint in asked[name].map { checkpoint <= $0 } ?? false }
    }

    /// Everything asked for is here up to this version.
    /// - Returns: whether that says anything new.
    mutating func advance(to version: Int64) -> Bool {
        let before = asked
        asked = asked.mapValues { max($0, version) }
        return asked != before
    }

    /// A full pass begins: each from 0.
    static func restart(_ db: Database) throws {
        guard var scopes = try read(db) else { return }
        scopes.asked = scopes.asked.mapValues { _ in 0 }
        try scopes.write(db)
    }
}

extension RecordKey {
    /// The record as the root of a scope: `board:8f2e…`.
    var scopeName: String { "\(entity):\(id)" }

    /// The root that a scope's name says.
    init?(scopeName: String) {
        guard let colon = scopeName.firstIndex(of: ":") else { return nil }
        self.init(String(scopeName[..<colon]), String(scopeName[scopeName.index(after: colon)...]))
    }
}
