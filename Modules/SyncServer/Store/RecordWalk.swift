internal import SyncCore

/// Finds the records that a request names. A device mostly names them in the order of their ids: then the next one is the row
/// behind the last, and what would stand between two rows is not there, without another look.
///
/// Nothing may be written into `record` between the first look and ``end()``. Ids are in the order of their bytes, as in the
/// file.
struct RecordWalk {
    private enum Place {
        /// On the row of the id asked for last.
        case onLast
        /// On the first row behind it.
        case beyond
        /// Nothing stands behind it.
        case atEnd
    }

    /// So many rows that nobody asked for are stepped over before the walk no longer tries the next one, unless more were right.
    private static let patience = 8

    private let statements: Statements
    private let account: Int64
    private var entity = ""
    /// The id asked for last: between it and the row of ``open`` there is no record.
    private var last = ""
    private var place = Place.atEnd
    private var open: OpenRead?
    private var hits = 0
    private var misses = 0

    init(statements: Statements, account: Int64) {
        self.statements = statements
        self.account = account
    }

    /// What `read` makes of the record's `n, version, dead, fields, writes, root`; `nil` if there is none.
    mutating func first<Value>(_ key: RecordKey, _ read: (StatementRow) throws -> Value) throws -> Value? {
        guard let row = try row(of: key) else { return nil }
        return try read(row)
    }

    /// The reads are over; the log could not be written back as long as one is open.
    mutating func end() {
        if let open { statements.end(open) }
        open = nil
    }

    private mutating func row(of key: RecordKey) throws -> StatementRow? {
        guard let open, key.entity == entity, last.comesBefore(key.id) else { return try begin(at: key) }
        switch place {
        case .atEnd: return nil
        case .beyond: return try look(at: open.row, for: key)
        case .onLast:
            guard misses < Self.patience || misses < hits else { return try begin(at: key) }
            guard let next = try statements.next(of: open) else {
                place = .atEnd
                return nil
            }
            place = .beyond
            let found = try look(at: next, for: key)
            if place == .onLast { hits += 1 } else { misses += 1 }
            return found
        }
    }

    /// Whether the row behind the last id is the one, or shows that there is none.
    private mutating func look(at row: StatementRow, for key: RecordKey) throws -> StatementRow? {
        let order = row.order(of: 6, to: key.id)
        if order < 0 { return try begin(at: key) }
        guard order == 0 else { return nil }
        (place, last) = (.onLast, key.id)
        return row
    }

    private mutating func begin(at key: RecordKey) throws -> StatementRow? {
        let open = try statements.open(
            """
            SELECT n, version, dead, fields, writes, root, id FROM record
            WHERE account = ? AND entity = ? AND id >= ? ORDER BY id
            """
        ) { row in
            row.add(account)
            row.add(key.entity)
            row.add(key.id)
        }
        (self.open, entity, last) = (open, key.entity, key.id)
        guard let row = try statements.next(of: open) else {
            place = .atEnd
            return nil
        }
        let isIt = row.order(of: 6, to: key.id) == 0
        place = isIt ? .onLast : .beyond
        return isIt ? row : nil
    }
}

extension String {
    /// Whether it stands before another in the order of their bytes.
    fileprivate func comesBefore(_ other: String) -> Bool {
        var (text, other) = (self, other)
        return text.withUTF8 { text in
            other.withUTF8 { UnsafeRawBufferPointer(text).order(to: UnsafeRawBufferPointer($0)) < 0 }
        }
    }
}
