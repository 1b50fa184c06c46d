import BoardsModel
import Foundation
import GRDB
import Ferry
import SyncCore

/// This device: a folder with a database in it, and the records and changes that the database holds.
struct Device {
    let store: Store
    let records: Records
    /// Whether nothing can be written.
    var isForLooking = false

    /// What a command does with the database.
    enum Purpose: Sendable {
        /// It writes, or may.
        case writing
        /// It looks at records and the queue; who writes meanwhile is not waited for.
        case looking
        /// The same, and at what is derived.
        case lookingAtDerived
    }

    /// How long somebody else's lock is waited for, in seconds.
    static let patience = 5.0
    /// So many changes of the queue are looked at together.
    static let part = 1_000

    /// Opens the folder's database; both are made where they are missing.
    /// - Parameter patience: how long it waits at most for a file that another process has locked, in seconds.
    /// - Throws: a ``Problem`` where the folder cannot be made; ``StoreFailure`` where the database cannot be opened.
    static func open(
        _ global: GlobalOptions, for purpose: Purpose = .writing, patience: Double = patience
    ) async throws -> Device {
        let device = try open(folder: global.folder, for: purpose, patience: patience)
        if let old = device.store.movedAside {
            let saved = try await device.store.summary()
            Console.complain(
                "The database was damaged, and is now “\(old)”; a new one was begun, with "
                    + "\(saved.pending + saved.inFlight + saved.blocked + saved.failed) unsent changes saved. "
                    + "The next sync brings what the server has.")
        } else if device.store.isBegunAnew {
            Console.complain(
                "The database that was here is gone, with what was unsent in it; a new one was begun. "
                    + "The next sync brings what the server has.")
        } else if let why = device.store.missingCommits {
            Console.complain("\(why) This device goes on as another one; the next sync brings what the server has.")
        }
        return device
    }

    /// The same for a folder that is named, and the boards' entities if no others are.
    /// - Parameter note: hears what of the derived data is made anew.
    static func open(
        folder: String, schema: Schema? = nil, for purpose: Purpose = .writing, patience: Double = patience,
        noting note: @escaping BoardDerived.Note = { _, _ in }
    ) throws -> Device {
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw Problem("The folder “\(folder)” cannot be made: it is a file's name, or not ours to write.")
        }
        let schema = try schema ?? BoardEntities.schema()
        let path = folder + "/boards.sqlite"
        let deadline = ContinuousClock.now + .seconds(patience)
        if purpose != .writing {
            let builders = purpose == .looking ? [] : BoardDerived.builders(noting: note)
            let configuration = StoreConfiguration(busyTimeout: patience, snapshots: builders)
            if let store = try Store(forReading: path, schema: schema, configuration: configuration) {
                return Device(store: store, records: Records(schema: schema), isForLooking: true)
            }
        }
        return Device(store: try open(path: path, schema, until: deadline, note), records: Records(schema: schema))
    }

    /// Opens the database; a file that somebody else is just making is waited for.
    ///
    /// SQLite does not wait by itself while a new file changes to its write-ahead log.
    private static func open(
        path: String, _ schema: Schema, until deadline: ContinuousClock.Instant, _ note: @escaping BoardDerived.Note
    ) throws -> Store {
        while true {
            do {
                let left = ContinuousClock.now.duration(to: deadline) / .seconds(1)
                return try openOnce(path: path, schema, patience: max(left, 0.05), note)
            } catch {
                guard isBusy(error), ContinuousClock.now < deadline else { throw error }
                usleep(useconds_t.random(in: 5_000...50_000))
            }
        }
    }

    private static func isBusy(_ error: any Error) -> Bool {
        switch error {
        case let failure as StoreFailure: failure.kind == .busy
        case let failure as DatabaseError: [.SQLITE_BUSY, .SQLITE_LOCKED].contains(failure.resultCode)
        default: false
        }
    }

    private static func openOnce(
        path: String, _ schema: Schema, patience: Double, _ note: @escaping BoardDerived.Note
    ) throws -> Store {
        let configuration = StoreConfiguration(
            busyTimeout: patience, createsTables: false, makesTables: { try BoardTables.create($0, schema) },
            snapshots: BoardDerived.builders(noting: note))
        return try Store(path: path, schema: schema, configuration: configuration)
    }

    func read<T: Sendable>(_ work: @Sendable (Database) throws -> T) async throws -> T {
        try await store.database.read(work)
    }

    /// Writes in one transaction; what throws leaves nothing behind.
    ///
    /// What is derived of it is made in the same transaction, so that a command that only looks finds it done.
    func write<T: Sendable>(_ work: @Sendable (Database) throws -> T) async throws -> T {
        let store = store
        return try await store.database.write { db in
            let result = try work(db)
            try store.refreshSnapshots(db)
            return result
        }
    }

    /// How many changes wait, go and failed, for a record and everything under it, or for all.
    ///
    /// Where no process syncs, nothing is on its way: what was sent without an answer waits to be sent again.
    func counts(for key: RecordKey?) async throws -> StateCounts {
        var counts = try await store.counts(for: key)
        if counts.uploading > 0, try await !store.isBeingSynced() {
            counts.waiting += counts.uploading
            counts.uploading = 0
        }
        return counts
    }

    /// Makes sure that a change waits here.
    func checkQueued(_ key: String) async throws {
        var place: QueuePlace? = QueuePlace()
        while let here = place {
            let part = try await store.queued(from: here, limit: Self.part)
            if part.changes.contains(where: { $0.change.id == key }) { return }
            place = part.next
        }
        if try await store.failures().contains(where: { $0.queued.change.id == key }) {
            throw Problem("Change \(key) was set aside: `boards discard \(key)` gives it up.")
        }
        throw Problem("No change \(key) waits here; `boards pending` lists those that do.")
    }

    /// Makes sure that a change was set aside here.
    func checkFailed(_ key: String) async throws {
        guard try await !store.failures().contains(where: { $0.queued.change.id == key }) else { return }
        throw Problem("No change \(key) was set aside here; `boards failures` lists those that were.")
    }
}
