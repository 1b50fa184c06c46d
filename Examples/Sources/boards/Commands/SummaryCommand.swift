import ArgumentParser
import BoardsModel
import Ferry
import GRDB
import SyncCore

struct SummaryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "summary", abstract: "Print what is derived from the records, a line of JSON each.",
        discussion: """
            Of a checklist its progress; of a card its badges, and where the talk on it stands, folded from its comments in \
            the order of their dates; of a board all of that over its cards. Kept beside the records and rebuilt only for \
            what a change touched, here or on its way from a server. Sorted by KIND and id, keys sorted: two devices in \
            sync print the same bytes.
            """)

    @OptionGroup var global: GlobalOptions
    @Flag(help: "JSON lines; this is the form without the flag, too.")
    var json = false
    @Argument(help: ArgumentHelp("Only of these: board, card or checklist.", valueName: "KIND"))
    var kind: String?
    @Argument(help: ArgumentHelp("Only of the record of this id.", valueName: "ID"))
    var id: String?

    func run() async throws {
        var kinds = DerivedLines.Subject.allCases
        if let kind {
            guard let known = DerivedLines.Subject(rawValue: kind) else {
                let all = kinds.map(\.rawValue).joined(separator: ", ")
                throw Problem("Nothing is derived for “\(kind)”; there are \(all).")
            }
            kinds = [known]
        }
        let (id, asked) = (try id.map(Target.id), kinds)
        let device = try await Device.open(global, for: .lookingAtDerived)
        let work = { @Sendable (db: Database) in try DerivedLines.text(db, asked, id: id) }
        // A write brings up what another process wrote since this one opened the database; who could open it for a look found
        // nothing to bring up.
        let text = try await device.isForLooking ? device.read(work) : device.write(work)
        if let id, text.isEmpty { throw Edits.missing(RecordKey(asked[0].rawValue, id)) }
        Console.write(text)
    }
}
