import Ferry
import GRDB

/// What the program derives from a board's records; nobody sends it, each device makes the same of the same records.
///
/// ```
/// checkItem ─► progress (of a checklist) ─► badges (of a card) ─► summary (of a board)
/// comment ───────────────────────────────►    "                     ▲
///    └───────► talk (of a card) ────────────────────────────────────┘
/// ```
/// Each is rebuilt in the transaction that touches what it depends on, and only for the subjects that were touched.
enum BoardDerived {
    /// What a builder was asked to make anew; a test listens.
    typealias Note = @Sendable (_ builder: String, _ ids: [String]) -> Void

    static let progress = DerivedTable(
        name: "derived_progress", columns: "items INTEGER NOT NULL, checked INTEGER NOT NULL")
    static let badges = DerivedTable(
        name: "derived_badges",
        columns: """
            items INTEGER NOT NULL, checked INTEGER NOT NULL, comments INTEGER NOT NULL, attachments INTEGER NOT NULL,
            labels INTEGER NOT NULL, members INTEGER NOT NULL, described INTEGER NOT NULL
            """)
    static let talk = DerivedTable(
        name: "derived_talk",
        columns: "turns INTEGER NOT NULL, speaker TEXT, since TEXT, speakers TEXT NOT NULL")
    static let summary = DerivedTable(
        name: "derived_summary",
        columns: """
            lists INTEGER NOT NULL, cards INTEGER NOT NULL, closed INTEGER NOT NULL, done INTEGER NOT NULL, nextDue TEXT,
            items INTEGER NOT NULL, checked INTEGER NOT NULL, comments INTEGER NOT NULL, attachments INTEGER NOT NULL,
            turns INTEGER NOT NULL
            """)

    /// All builders; the store puts them in order by what they depend on.
    static func builders(noting note: @escaping Note = { _, _ in }) -> [SnapshotBuilder] {
        [summaryBuilder(note), badgesBuilder(note), talkBuilder(note), progressBuilder(note)]
    }

    /// How far a checklist is.
    private static func progressBuilder(_ note: @escaping Note) -> SnapshotBuilder {
        SnapshotBuilder(
            "progress", subject: "checklist",
            dependsOn: [.entity("checklist"), .entity("checkItem", ["idChecklist"])],
            setUp: progress.setUp,
            rebuild: { db, ids in
                note("progress", ids)
                try progress.rebuild(
                    db, ids,
                    """
                    SELECT checklist.id, count(checkItem.id), coalesce(sum(checkItem.state = 'complete'), 0)
                    FROM checklist LEFT JOIN checkItem ON checkItem.idChecklist = checklist.id
                    WHERE checklist.id IN (SELECT value FROM json_each(?)) GROUP BY checklist.id
                    """)
            })
    }

    /// What a card shows on its front: over its checklists' progress, its comments and attachments.
    private static func badgesBuilder(_ note: @escaping Note) -> SnapshotBuilder {
        SnapshotBuilder(
            "badges", subject: "card",
            dependsOn: [
                // The checklist beside its progress: one that is moved touches the card that it leaves, too.
                .entity("card"), .entity("checklist", ["idCard"]), .snapshot("progress", ["idCard"]),
                .entity("comment", ["idCard"]), .entity("attachment", ["idCard"]),
            ],
            setUp: badges.setUp,
            rebuild: { db, ids in
                note("badges", ids)
                try badges.rebuild(
                    db, ids,
                    """
                    SELECT id,
                      (SELECT coalesce(sum(items), 0) FROM derived_progress JOIN checklist USING (id) WHERE idCard = card.id),
                      (SELECT coalesce(sum(checked), 0) FROM derived_progress JOIN checklist USING (id) WHERE idCard = card.id),
                      (SELECT count(*) FROM comment WHERE idCard = card.id),
                      (SELECT count(*) FROM attachment WHERE idCard = card.id),
                      CASE WHEN json_valid(idLabels) THEN json_array_length(idLabels) ELSE 0 END,
                      CASE WHEN json_valid(idMembers) THEN json_array_length(idMembers) ELSE 0 END,
                      coalesce("desc", '') <> ''
                    FROM card WHERE id IN (SELECT value FROM json_each(?))
                    """)
            })
    }

    /// Where the talk on a card stands: folded from its comments in the order in which they were made.
    private static func talkBuilder(_ note: @escaping Note) -> SnapshotBuilder {
        SnapshotBuilder(
            "talk", subject: "card", dependsOn: [.entity("card"), .entity("comment", ["idCard"])],
            setUp: talk.setUp,
            rebuild: { db, ids in
                note("talk", ids)
                try Talk.rebuild(db, ids)
            })
    }

    /// A board over its lists and their cards.
    private static func summaryBuilder(_ note: @escaping Note) -> SnapshotBuilder {
        SnapshotBuilder(
            "summary", subject: "board",
            dependsOn: [
                .entity("board"), .entity("list", ["idBoard"]), .entity("card", ["idList", "idBoard"]),
                .snapshot("badges", ["idList", "idBoard"]), .snapshot("talk", ["idList", "idBoard"]),
            ],
            setUp: summary.setUp,
            rebuild: { db, ids in
                note("summary", ids)
                try summary.rebuild(
                    db, ids,
                    """
                    SELECT board.id, count(DISTINCT list.id), count(card.id), coalesce(sum(card.closed = 1), 0),
                      coalesce(sum(card.dueComplete = 1), 0),
                      min(CASE WHEN coalesce(card.closed, 0) = 0 AND coalesce(card.dueComplete, 0) = 0 THEN card.due END),
                      coalesce(sum(items), 0), coalesce(sum(checked), 0), coalesce(sum(comments), 0),
                      coalesce(sum(attachments), 0), coalesce(sum(turns), 0)
                    FROM board LEFT JOIN list ON list.idBoard = board.id LEFT JOIN card ON card.idList = list.id
                      LEFT JOIN derived_badges ON derived_badges.id = card.id
                      LEFT JOIN derived_talk ON derived_talk.id = card.id
                    WHERE board.id IN (SELECT value FROM json_each(?)) GROUP BY board.id
                    """)
            })
    }
}
