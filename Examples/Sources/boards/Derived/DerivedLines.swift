import GRDB
import SyncCore

/// Derived rows as `summary` prints them: a line of canonical JSON each, sorted by what they are about and by id.
///
/// A row counts where its record is in sight: what stands under a deleted list is not told.
struct DerivedLines {
    /// What `summary` can be about.
    enum Subject: String, CaseIterable {
        case board, card, checklist
    }

    /// The lines about all subjects of these kinds, or about one.
    static func text(_ db: Database, _ kinds: [Subject], id: String? = nil) throws -> String {
        var text = ""
        for kind in kinds.sorted(by: { $0.rawValue < $1.rawValue }) {
            let rows = try Row.fetchCursor(db.cachedStatement(sql: select(kind)), arguments: [id])
            while let row = try rows.next() { text += JSONText.text(.object(members(row, kind))) + "\n" }
        }
        return text
    }

    private static func select(_ kind: Subject) -> String {
        let under =
            switch kind {
            case .board:
                "SELECT board.name, derived_summary.* FROM derived_summary JOIN board USING (id)"
            case .card:
                """
                SELECT card.name, derived_badges.*, turns, speaker, since, speakers
                FROM derived_badges JOIN derived_talk USING (id) JOIN card USING (id)
                JOIN list ON list.id = card.idList JOIN board ON board.id = list.idBoard
                """
            case .checklist:
                """
                SELECT checklist.name, derived_progress.* FROM derived_progress JOIN checklist USING (id)
                JOIN card ON card.id = checklist.idCard JOIN list ON list.id = card.idList
                JOIN board ON board.id = list.idBoard
                """
            }
        return "\(under) WHERE ?1 IS NULL OR \(kind.rawValue).id = ?1 ORDER BY \(kind.rawValue).id"
    }

    private static func members(_ row: Row, _ kind: Subject) -> [String: FieldValue] {
        var members: [String: FieldValue] = ["summary": .string(kind.rawValue)]
        for (name, value) in row {
            members[name] =
                switch value.storage {
                case .int64(let number): name == "described" ? .bool(number != 0) : .int(number)
                case .string(let text): name == "speakers" ? JSONText.value(text) ?? .null : .string(text)
                case .null, .double, .blob: .null
                }
        }
        return members
    }
}
