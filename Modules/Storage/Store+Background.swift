import GRDB
public import SyncCore

/// When rounds in the background began: kept, since the program is killed between two of them.
extension Store {
    /// When the last rounds began, milliseconds since 1970, oldest first.
    public func backgroundRounds() throws(StoreFailure) -> [Int64] {
        try look("reading when background rounds began") { db in try Self.rounds(db) }
    }

    /// Notes that one begins; the newest `keeping` are kept.
    public func noteBackgroundRound(atMilliseconds time: Int64, keeping: Int) throws(StoreFailure) {
        try perform("noting a background round") { db in
            let rounds = (try Self.rounds(db) + [time]).suffix(max(1, keeping))
            try Meta.set(db, .backgroundRounds, FieldValue.array(rounds.map(FieldValue.int)).jsonText())
        }
    }

    private static func rounds(_ db: Database) throws -> [Int64] {
        guard let text = try Meta.text(db, .backgroundRounds), case .array(let rounds) = try FieldValue(json: text)
        else {
            return []
        }
        return rounds.compactMap { if case .int(let time) = $0 { time } else { nil } }
    }
}
