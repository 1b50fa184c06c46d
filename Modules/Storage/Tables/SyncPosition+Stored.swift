import GRDB
import SyncCore

extension SyncPosition {
    /// What the file says; by one statement for most of it, since each cycle asks.
    init(_ db: Database) throws {
        let values = try Meta.texts(
            db, [.device, .dataset, .epoch, .checkpoint, .passRuns, .passAwaits, .passBegan, .scopes])
        let scopes = try Scopes(json: values[.scopes])
        self.init(
            deviceID: values[.device] ?? "", dataset: values[.dataset], epoch: values[.epoch],
            checkpoint: values[.checkpoint].flatMap { Int64($0) } ?? 0, isInFullPass: values[.passRuns] == "1",
            awaitsConfirmation: values[.passAwaits] == "1", held: try HeldRecords.count(db),
            clockOffsetMilliseconds: try ClockOffset.known(db), scopes: scopes?.wanted,
            isOpen: scopes.map { $0.open != nil || !$0.stayed.isEmpty } ?? false,
            passBeganMilliseconds: values[.passBegan].flatMap { Int64($0) })
    }
}
