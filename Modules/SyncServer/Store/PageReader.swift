internal import SyncCore

/// One page of records with a version above a checkpoint, in version order.
struct Page {
    /// The records as JSON, one after another as the members of an array; empty once ``tail`` is made of them.
    fileprivate var records = JSONWriter()
    /// The end of an answer's body: the whole array of records, and the brace behind it. Empty without records.
    private(set) var tail: [UInt8] = []
    /// The same as a shell sends it, where that was made ahead.
    var packed: [UInt8]?
    var count = 0
    /// Complete up to here.
    var version: Int64
    var hasMore = false
    var highestStamp: Stamp = .zero

    init(version: Int64) { self.version = version }

    fileprivate mutating func begin() {
        records = JSONWriter(capacity: 1_024)
        records.beginArray()
    }

    fileprivate mutating func end() {
        guard count > 0 else { return }
        records.endArray()
        tail = records.takeBytes()
        tail.append(UInt8(ascii: "}"))
    }
}

/// Reads pages; nothing that readers of other accounts could tell comes into them.
struct PageReader {
    let store: ServerStore
    let account: AccountContext
    let limits: ServerLimits
    /// Records that the device knows from its own request.
    let known: Set<Int64>

    private var statements: Statements { store.statements }

    // Each says `version > 0` once more: the indexes by version hold only what has one, and SQLite takes such an index
    // only where the statement itself says so. Without it every page sorted the whole account.
    static let ofAccount: StaticString = """
        SELECT n, entity, id, version, dead, stamp, fields, unit FROM record
        WHERE account = ? AND version > ? AND version > 0 ORDER BY version
        """
    static let ofUnit: StaticString = """
        SELECT count(*) FROM record WHERE account = ? AND version BETWEEN ? AND ? AND unit = ? AND version > 0
        """
    static let ofRoot: StaticString = """
        SELECT n, version, unit FROM record WHERE root = ? AND version > ? AND version > 0 ORDER BY version
        """

    /// What the whole account has above a checkpoint.
    func page(after checkpoint: Int64, limit: Int) throws -> Page {
        var page = Page(version: account.head)
        guard checkpoint < account.head else { return page }
        page.begin()
        var last = checkpoint
        var unit: Int64 = 0
        try statements.each(Self.ofAccount, [account.row, checkpoint]) { row in
            if !known.isEmpty, known.contains(row[0]) { return true }
            let next: Int64 = row[7]
            let isWithin = next != 0 && next == unit
            let size = next == 0 || isWithin ? 1 : try self.size(ofUnit: next)
            unit = next
            if !isWithin, page.count > 0, isFull(page, adding: size, limit: limit) {
                page.hasMore = true
                page.version = last
                return false
            }
            last = add(row, to: &page)
            return true
        }
        page.end()
        return page
    }

    /// A page ends before a unit that would not fit, and goes on to the end of one that it began.
    private func isFull(_ page: Page, adding size: Int, limit: Int) -> Bool {
        page.count + size > limit || page.records.count > limits.pageBytes
    }

    private func size(ofUnit unit: Int64) throws -> Int {
        try statements.first(Self.ofUnit, [account.row, unit, unit + Int64(limits.dirtyRecords), unit]) { $0[0] } ?? 1
    }

    private func add(_ row: StatementRow, to page: inout Page) -> Int64 {
        let version: Int64 = row[3]
        OutcomeWriter.record(
            RecordKey(row[1], row[2]), version: version, isDead: (row[4] as Int64) != 0, fields: row[6],
            into: &page.records)
        page.count += 1
        page.highestStamp = max(page.highestStamp, Stamp(packed: UInt64(bitPattern: row[5] as Int64)))
        return version
    }

    // MARK: - Scopes

    /// What the roots asked for have, each above its own checkpoint.
    func page(of scopes: [SyncRequest.Scope], rules: [String: EntityRules], limit: Int) throws -> Page {
        var page = Page(version: account.head)
        page.begin()
        var roots: [(row: Int64, checkpoint: Int64)] = []
        for scope in scopes {
            if let row = try root(scope.name, rules) { roots.append((row, scope.checkpoint)) }
        }
        // One more than fits, and what a unit may go on for.
        let (places, isWholeUpTo) = try places(of: roots, enough: limit + limits.dirtyRecords)
        var last: Int64 = 0
        // Up to where the unit that the page began goes: what stands between its records belongs to it.
        let ends = Dictionary(places.map { ($0.unit, $0.version) }, uniquingKeysWith: max)
        var end: Int64 = 0
        for place in places {
            let isWithin = place.version <= end
            let size = place.unit == 0 || isWithin ? 1 : try self.size(ofUnit: place.unit)
            if !isWithin, page.count > 0, isFull(page, adding: size, limit: limit) {
                page.hasMore = true
                page.version = last
                break
            }
            if !isWithin, place.unit != 0 { end = ends[place.unit] ?? 0 }
            try add(place, to: &page)
            last = place.version
        }
        if !page.hasMore, isWholeUpTo < .max {
            // All that was read fits, and there is more.
            page.hasMore = true
            page.version = isWholeUpTo
        }
        page.end()
        return page
    }

    /// The row of a scope's root; `nil` for one that is not known here.
    func root(_ scope: String, _ rules: [String: EntityRules]) throws -> Int64? {
        guard let colon = scope.firstIndex(of: ":") else { return nil }
        let entity = String(scope[..<colon])
        guard rules[entity] != nil else { return nil }
        return try statements.first(
            "SELECT n FROM record WHERE account = ? AND entity = ? AND id = ?",
            [account.row, entity, String(scope[scope.index(after: colon)...])]
        ) { $0[0] }
    }

    /// What the roots have, in version order, at least `enough` if there is as much; and up to which version that is all.
    ///
    /// Of each root a little is read, and then more of those that are behind the place where there would be enough: a page
    /// of a thousand roots costs a little of each and what it brings, not a thousand pages.
    private func places(
        of roots: [(row: Int64, checkpoint: Int64)], enough: Int
    ) throws -> (places: [ScopeReading.Place], isWholeUpTo: Int64) {
        var readings = roots.map { ScopeReading(root: $0.row, above: $0.checkpoint, isOfLeavings: false) }
        // Who begins with a scope has nothing of it that could leave.
        for root in roots where root.checkpoint > 0 {
            readings.append(ScopeReading(root: root.row, above: root.checkpoint, isOfLeavings: true))
        }
        let asked = Set(roots.map(\.row))
        for index in readings.indices { try read(8 + enough / readings.count, of: &readings[index], asked) }
        while true {
            let places = readings.flatMap(\.places).sorted { $0.version < $1.version }
            let wanted = places.count > enough ? places[enough].version : .max
            let behind = readings.indices.filter { !readings[$0].isOver && readings[$0].isWholeUpTo < wanted }
            guard !behind.isEmpty else {
                let isWholeUpTo = readings.reduce(Int64.max) { min($0, $1.isWholeUpTo) }
                return (Self.toldOnce(places.filter { $0.version <= isWholeUpTo }), isWholeUpTo)
            }
            for index in behind { try read(8 + readings[index].places.count, of: &readings[index], asked) }
        }
    }

    /// Who left two of the roots asked for is told once, the last time.
    private static func toldOnce(_ places: [ScopeReading.Place]) -> [ScopeReading.Place] {
        var told: Set<Int64> = []
        return places.reversed().filter { told.insert($0.row).inserted }.reversed()
    }

    private func read(_ count: Int, of reading: inout ScopeReading, _ asked: Set<Int64>) throws {
        let (root, isOfLeavings) = (reading.root, reading.isOfLeavings)
        try reading.read(count) { version, take in
            if isOfLeavings {
                try leavings(of: root, above: version, asked, take)
            } else {
                try records(of: root, above: version, take)
            }
        }
    }

    private func records(of root: Int64, above version: Int64, _ take: (ScopeReading.Place) -> Bool) throws {
        try statements.each(Self.ofRoot, [root, version]) { row in
            if !known.isEmpty, known.contains(row[0]) { return true }
            return take(ScopeReading.Place(version: row[1], row: row[0], unit: row[2], isLeaving: false))
        }
    }

    private func leavings(
        of root: Int64, above version: Int64, _ asked: Set<Int64>, _ take: (ScopeReading.Place) -> Bool
    ) throws {
        try statements.each(
            """
            SELECT leaving.record, leaving.version, record.root, record.version, record.unit
            FROM leaving JOIN record ON record.n = leaving.record
            WHERE leaving.root = ? AND leaving.version > ? ORDER BY leaving.version
            """, [root, version]
        ) { row in
            if asked.contains(row[2]) { return true }
            // Of a record that was changed since, the unit in which it left is not known any more.
            let unit: Int64 = (row[1] as Int64) == (row[3] as Int64) ? row[4] : 0
            return take(ScopeReading.Place(version: row[1], row: row[0], unit: unit, isLeaving: true))
        }
    }

    private func add(_ place: ScopeReading.Place, to page: inout Page) throws {
        try statements.first(
            "SELECT n, entity, id, version, dead, stamp, fields FROM record WHERE n = ?", [place.row]
        ) { row in
            if place.isLeaving {
                OutcomeWriter.gone(RecordKey(row[1], row[2]), version: place.version, into: &page.records)
                page.count += 1
            } else {
                _ = add(row, to: &page)
            }
        }
    }

    // MARK: - Checksum

    /// The sum of FNV-1a-64 over entity, id and version of every live record; of all roots where none are given.
    func checksum(of scopes: [SyncRequest.Scope]?, rules: [String: EntityRules]) throws -> UInt64 {
        guard let scopes else {
            return try sum(
                "SELECT entity, id, version FROM record WHERE account = ? AND version > 0 AND dead = 0", account.row)
        }
        var total: UInt64 = 0
        for scope in scopes {
            guard let root = try root(scope.name, rules) else { continue }
            total &+= try sum(
                "SELECT entity, id, version FROM record WHERE root = ? AND version > 0 AND dead = 0", root)
        }
        return total
    }

    private func sum(_ sql: StaticString, _ of: Int64) throws -> UInt64 {
        var total: UInt64 = 0
        try statements.each(sql, [of]) { row in
            total &+= Checksum.hash(entity: row[0], id: row[1], version: row[2])
            return true
        }
        return total
    }
}

/// PROTOCOL.md, *Records*, `checksum`.
enum Checksum {
    static func hash(entity: String, id: String, version: Int64) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in "\(entity)\n\(id)\n\(version)".utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return hash
    }

    static func text(_ sum: UInt64) -> String {
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
