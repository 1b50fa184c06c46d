import Storage
import SyncCore

/// A suite about a device that holds chosen roots: the boards `b1` and `b2`, and what pages bring of them.
protocol AskingForRoots {}

extension AskingForRoots {
    var one: RecordKey { RecordKey("board", "b1") }
    var two: RecordKey { RecordKey("board", "b2") }

    /// A page for the roots that are asked for now.
    @discardableResult
    func page(
        _ f: Fixture, _ records: ServerRecord..., upTo version: Int64, hasMore: Bool = false,
        epoch: String = Fixture.epoch
    ) async throws -> SliceReport {
        let asked = try await f.store.position().scopes
        return try await f.store.apply(
            PageSlice(records: records, from: 0, checkpoint: version, epoch: epoch, scopes: asked, hasMore: hasMore))
    }

    func list(_ id: String, _ version: Int64, in board: String) -> ServerRecord {
        record("list", id, version, ["name": "List", "idBoard": .string(board)])
    }

    func card(_ id: String, _ version: Int64, in list: String) -> ServerRecord {
        record("card", id, version, ["name": "Card", "idList": .string(list), "pos": 1.0])
    }
}
