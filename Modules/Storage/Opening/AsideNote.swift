import Foundation
import SyncCore

/// A file beside a database whose predecessor was corrupt and moved aside: it names that one until its queue is saved.
///
/// Between the two anything may happen: the app's own tables are still to be made, or the process is killed, or the new
/// file is damaged, too, so that there are two to be saved. Whoever
/// opens the new file first, saves. It holds names alone, a line each, since folders move.
struct AsideNote {
    private let database: String
    private var path: String { database + "-aside" }

    init(database: String) { self.database = database }

    /// Where the old files are, or are to go, in the order in which they were moved; none where nothing is to be saved.
    var targets: [String] {
        guard let data = FileManager.default.contents(atPath: path) else { return [] }
        let folder = URL(fileURLWithPath: database).deletingLastPathComponent()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").filter { !$0.contains("/") }
            .map { folder.appendingPathComponent(String($0)).path }
    }

    func set(targets: [String]) throws(StoreFailure) {
        let names = targets.map { URL(fileURLWithPath: $0).lastPathComponent }
        do {
            try Data(names.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw StoreFailure(
                kind: .corrupt,
                message: "The database is corrupt, and cannot be moved aside: \(error.localizedDescription)")
        }
    }

    /// The queue is saved.
    func remove() throws(StoreFailure) {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            throw StoreFailure(error, while: "removing the note of a corrupt database")
        }
    }
}
