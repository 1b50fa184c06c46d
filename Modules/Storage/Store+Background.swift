import GRDB
public import SyncCore

/// When rounds in the background began: kept, since the program is killed between two of them.
extension Store {
    /// When the last rounds began, milliseconds since 1970, oldest first.
    ///
    /// One that lies ahead, since the clock was set back, began now, and stays so: what counted as now at each look would never
    /// grow old.
    public func backgroundRounds(noLaterThan now: Int64) throws(StoreFailure) -> [Int64] {
        let known = try look("reading when background rounds began") { db in try Self.rounds(db) }
        guard known.contains(where: { $0 > now }) else { return known }
        return try perform("putting background rounds right") { db in
            let rounds = try Self.rounds(db).map { min($0, now) }
            try Self.set(db, rounds)
            return rounds
        }
    }

    /// Notes that one begins, if no other has since `known` was read; the newest `keeping` are kept.
    /// - Returns: whether it was noted.
    public func noteBackgroundRound(
        atMilliseconds time: Int64, after known: [Int64], keeping: Int
    ) throws(StoreFailure) -> Bool {
        try perform("noting a background round") { db in
            guard try Self.rounds(db) == known else { return false }
            try Self.set(db, (known + [time]).suffix(max(1, keeping)))
            return true
        }
    }

    private static func set(_ db: Database, _ rounds: some Sequence<Int64>) throws {
        try Meta.set(db, .backgroundRounds, FieldValue.array(rounds.map(FieldValue.int)).jsonText())
    }

    private static func rounds(_ db: Database) throws -> [Int64] {
        guard let text = try Meta.text(db, .backgroundRounds), case .array(let rounds) = try FieldValue(json: text)
        else {
            return []
        }
        return rounds.compactMap { if case .int(let time) = $0 { time } else { nil } }
    }
}
