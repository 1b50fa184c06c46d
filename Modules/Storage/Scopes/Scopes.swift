import GRDB
import SyncCore

/// The roots that this device asks for, each with its checkpoint, and those that are on their way out (DL-21); in `sync_meta`.
///
/// Without an entry everything that the account may see is asked for. What is here at which moment: Decision 191.
struct Scopes: Hashable {
    /// `board:8f2e…`: everything of the root up to this version is here.
    var asked: [String: Int64]
    /// Not asked for any more, and rows with unsent changes are still here; each with the version from which it would tell
    /// what has left it since, 0 where there is none.
    var leaving: [String: Int64] = [:]
    /// Asked for again before they had left, and nothing of them counts as here: first everything is asked for, from 0, then from
    /// this version what has left them since (Decision 251).
    var returning: [String: Int64] = [:]
    /// How far these have come on their way from 0.
    var caught: [String: Int64] = [:]
    /// Of roots that begin at 0, the lowest version that a verdict told meanwhile: what was made there may have left since, and later
    /// verdicts raise what is held past that (seed 2260045).
    private var told: [String: Int64] = [:]
    /// Rows that stayed for what is unsent, or that a full pass has only a verdict's word of (``StayedRows``).
    var stayed: Set<String> = []
    /// Of these, what stands under roots that are being read once more, and no page has brought yet.
    var doubted: Set<String> = []
    /// Entities that this program does not know, and of which it let go what it held, with a root that was dropped (Decision 312).
    var unknown: Set<String> = []
    /// From where the pull under way began; `nil` where the last answer left nothing to come, and none was dropped since.
    var open: [String: Int64]?

    static func read(_ db: Database) throws -> Scopes? { try Scopes(json: Meta.text(db, .scopes)) }

    init(asked: [String: Int64], open: [String: Int64]? = nil) {
        self.asked = asked
        self.open = open
    }

    /// As the file has it; `nil` where everything is asked for.
    init?(json: String?) throws {
        guard let json, case .object(let members) = try FieldValue(json: json) else { return nil }
        asked = Self.versions(members["asked"]) ?? [:]
        if case .array(let names)? = members["leaving"] {
            for case .string(let name) in names { leaving[name] = 0 }
        }
        // The names stand beside it: a file of an earlier program has them alone.
        for (name, version) in Self.versions(members["left"]) ?? [:] where leaving[name] != nil {
            leaving[name] = version
        }
        returning = Self.versions(members["returning"]) ?? [:]
        caught = (Self.versions(members["caught"]) ?? [:]).filter { returning[$0.key] != nil }
        told = Self.versions(members["told"]) ?? [:]
        stayed = Self.names(members["stayed"])
        doubted = Self.names(members["doubted"])
        unknown = Self.names(members["unknown"])
        open = Self.versions(members["open"])
    }

    private static func names(_ member: FieldValue?) -> Set<String> {
        guard case .array(let names)? = member else { return [] }
        return Set(names.compactMap { if case .string(let name) = $0 { name } else { nil } })
    }

    private static func versions(_ member: FieldValue?) -> [String: Int64]? {
        guard case .object(let members)? = member else { return nil }
        return members.compactMapValues { if case .int(let version) = $0 { version } else { nil } }
    }

    func write(_ db: Database) throws {
        var members: [String: FieldValue] = [
            "asked": .object(asked.mapValues(FieldValue.int)),
            "leaving": .array(leaving.keys.sorted().map(FieldValue.string)),
        ]
        let left = leaving.filter { $0.value > 0 }
        if !left.isEmpty { members["left"] = .object(left.mapValues(FieldValue.int)) }
        if !returning.isEmpty { members["returning"] = .object(returning.mapValues(FieldValue.int)) }
        if !caught.isEmpty { members["caught"] = .object(caught.mapValues(FieldValue.int)) }
        let told = told.filter { isFromStart($0.key) }
        if !told.isEmpty { members["told"] = .object(told.mapValues(FieldValue.int)) }
        for (member, names) in [("stayed", stayed), ("doubted", doubted), ("unknown", unknown)] where !names.isEmpty {
            members[member] = .array(names.sorted().map(FieldValue.string))
        }
        if let open { members["open"] = .object(open.mapValues(FieldValue.int)) }
        try Meta.set(db, .scopes, FieldValue.object(members).jsonText())
    }

    /// What the next request says: each root with the version from which it is asked.
    var wanted: [String: Int64] { asked.merging(caught) { $1 } }

    /// Whether a slice was asked for exactly what is asked for now, from no further than it is here.
    func covers(_ slice: PageSlice) -> Bool {
        let wanted = wanted
        guard let from = slice.scopes, from.count == wanted.count else { return false }
        return from.allSatisfy { name, checkpoint in wanted[name].map { checkpoint <= $0 } ?? false }
    }

    /// Everything asked for is here up to this version, and more of the pull is to come.
    mutating func advance(to version: Int64) {
        let before = wanted
        for (name, checkpoint) in before {
            if returning[name] == nil {
                asked[name] = max(checkpoint, version)
            } else {
                caught[name] = max(checkpoint, version)
            }
        }
        if open == nil, wanted != before { open = before }
    }

    /// Whether an answer that leaves nothing to come at this version closes the pull: nothing is here that it does not know.
    func isWhole(at version: Int64) -> Bool { wanted.values.allSatisfy { $0 <= version } }

    /// Whether what left the roots that come back is still to be told, once the pull is through at this version.
    func asksAgain(at version: Int64) -> Bool { returning.values.contains { $0 < version } }

    /// The pull is through at this version, and nothing of it is to come: of the roots that come back everything is here, and more,
    /// if something left them.
    /// - Returns: whether there is more to ask for at once: what left those roots.
    mutating func close(at version: Int64, passRuns: Bool) -> Bool {
        let isBack = asksAgain(at: version)
        for (name, since) in returning { asked[name] = min(since, version) }  // any order
        (returning, caught) = ([:], [:])
        // What a pass brought is looked at once it is over.
        open = isBack || passRuns ? asked : nil
        return isBack
    }

    /// These roots are read once more from 0, and tell then what left them since.
    mutating func readAgain(_ names: Set<String>) {
        for name in names where asked[name] ?? 0 > 0 {  // any order
            returning[name] = asked[name]
            asked[name] = 0
        }
        if !names.isEmpty { open = wanted }
    }

    /// A root, or a row that stayed, is called otherwise from now on; asked for by both names, it is as far as the one that is less far.
    mutating func rename(_ old: String, to new: String) {
        func move(_ versions: inout [String: Int64]) {
            guard let version = versions.removeValue(forKey: old) else { return }
            versions[new] = min(version, versions[new] ?? version)
        }
        move(&asked)
        move(&leaving)
        move(&returning)
        move(&caught)
        move(&told)
        if var began = open {
            move(&began)
            open = began
        }
        if stayed.remove(old) != nil { stayed.insert(new) }
        if doubted.remove(old) != nil { doubted.insert(new) }
        if asked[new] != nil { leaving[new] = nil }
    }

    /// These are asked for by another id from now on, of which everything is to come.
    mutating func named(_ names: Set<String>) {
        let names = names.filter { asked[$0] != nil }
        for name in names { caught[name] = nil }  // any order
        readAgain(names)
    }

    /// These roots from now on, and no others (Decision 191).
    /// - Parameters:
    ///   - dropped: those that are here and not asked for any more.
    ///   - isLess: whether something is not asked for any more, here or not.
    ///   - here: of those that begin at 0 and have rows all the same, the version from which what left them is to be told
    ///     (Decision 240).
    mutating func choose(_ names: Set<String>, dropped: Set<String>, isLess: Bool, here: [String: Int64] = [:]) {
        // Where they stand is looked at anew.
        stayed.formUnion(doubted)
        doubted = []
        let from = rolledBack()
        for name in dropped { leaving[name] = returning[name] ?? from[name] ?? 0 }  // any order
        if isLess {
            // Where a pull is under way, what left a root for one that is dropped may never be told: it begins again.
            for (name, version) in from {
                if returning[name] != nil { caught[name] = version } else { asked[name] = version }
            }
        }
        asked = asked.filter { names.contains($0.key) }
        returning = returning.filter { names.contains($0.key) }
        caught = caught.filter { returning[$0.key] != nil }
        for name in names where isFromStart(name) {  // any order
            asked[name] = 0
            // One that comes back before it had left is caught up anew: some of its rows are gone.
            let left = leaving.removeValue(forKey: name) ?? 0
            if let from = left > 0 ? left : here[name] { returning[name] = from }
        }
        if isLess {
            open = wanted
        } else if let began = open {
            open = wanted.merging(began) { $1 }
        }
    }

    /// Whether nothing of a root counts as here, and it is not to be asked what left it.
    func isFromStart(_ name: String) -> Bool { asked[name] ?? 0 == 0 && returning[name] == nil }

    /// A verdict told this version before anything of a root that begins at 0 came with a page: where requests carry none, that may be so
    /// through several of them.
    static func note(_ db: Database, told version: Int64) throws {
        guard var scopes = try read(db) else { return }
        let before = scopes
        for name in scopes.asked.keys where scopes.isFromStart(name) {  // any order
            scopes.told[name] = min(version, scopes.told[name] ?? version)
        }
        if scopes != before { try scopes.write(db) }
    }

    /// These roots are asked what left them since, too.
    /// - Parameter here: each with the lowest version that is held of its rows.
    mutating func askForLeaves(since here: [String: Int64]) {
        for (name, version) in here { returning[name] = min(version, told[name] ?? version) }  // any order
    }

    /// Where the pull under way began, or where each root stands where there is none.
    ///
    /// Never 0 for a root of which something is here: who begins at 0 is not told what left.
    private func rolledBack() -> [String: Int64] {
        let wanted = wanted
        guard let open else { return wanted }
        return wanted.reduce(into: wanted) { from, root in
            if let began = open[root.key] { from[root.key] = min(root.value, max(began, 1)) }
        }
    }

    /// A full pass begins: each from 0.
    static func restart(_ db: Database) throws {
        guard var scopes = try read(db) else { return }
        scopes.restart()
        try scopes.write(db)
    }

    mutating func restart() {
        asked = asked.mapValues { _ in 0 }
        leaving = leaving.mapValues { _ in 0 }
        (returning, caught, told) = ([:], [:], [:])
        (stayed, doubted, unknown) = ([], [], [])
        open = nil
    }

    /// Whether a pull is under way that some of the roots asked for began further down.
    var isOpen: Bool {
        let wanted = wanted
        return open?.contains { name, version in wanted[name].map { version < $0 } ?? false } ?? false
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
