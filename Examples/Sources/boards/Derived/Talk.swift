import GRDB
import SyncCore

/// Where the talk on a card stands: the state that a history of comments folds to, one after the other.
///
/// Comments are the part of a board's history of actions that is kept as records. The order is theirs, by date and id: one
/// that comes late, or is dated otherwise, changes what follows it, so a card's state is always folded from the beginning.
struct Talk: Sendable, Hashable {
    /// How often the word went from one to another; the first word counts.
    private(set) var turns = 0
    /// Who has the word.
    private(set) var speaker: String?
    /// Since when nobody else has said anything.
    private(set) var since: String?
    /// Everybody who said something, in the order of their first words.
    private(set) var speakers: [String] = []

    /// The next comment.
    mutating func said(by member: String, at date: String?) {
        if member != speaker {
            turns += 1
            speaker = member
            since = date
        }
        if !speakers.contains(member) { speakers.append(member) }
    }

    /// Folds the histories of these cards anew.
    static func rebuild(_ db: Database, _ ids: [String]) throws {
        let list = try BoardDerived.talk.clear(db, ids)
        let present = try String.fetchAll(
            db.cachedStatement(
                sql: "SELECT id FROM card WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"),
            arguments: [list])
        var talks: [String: Talk] = [:]
        let comments = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT idCard, coalesce(idMemberCreator, ''), date FROM comment
                    WHERE idCard IN (SELECT value FROM json_each(?)) ORDER BY idCard, date, id
                    """), arguments: [list])
        while let comment = try comments.next() {
            talks[comment[0], default: Talk()].said(by: comment[1], at: comment[2])
        }
        let insert = try db.cachedStatement(
            sql: "INSERT INTO \(BoardDerived.talk.name) (id, turns, speaker, since, speakers) VALUES (?, ?, ?, ?, ?)")
        for id in present {
            let talk = talks[id] ?? Talk()
            let speakers = JSONText.text(.array(talk.speakers.map(FieldValue.string)))
            try insert.execute(arguments: [id, talk.turns, talk.speaker, talk.since, speakers])
        }
    }
}
