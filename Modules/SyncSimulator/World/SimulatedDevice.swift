import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Transport
import UploadQueue

/// A device: its files, its clock, its network, and the process that lives now, with the real store and the real engine.
///
/// A process ends by a kill or in order; the next one opens the same files. All of it runs on lanes of the seeded
/// executor, so that a suspended device stands still while the others go on.
final class SimulatedDevice {
    let index: Int
    let folder: DeviceFolder
    let wallClock: ManualWallClock
    let network: DeviceNetwork
    let hook = DiskHook()
    let ids: SeededIDs
    private let executor: SeededExecutor
    private let seed: UInt64
    let record: Record
    private let options: SimulationOptions
    private let limits: RequestLimits
    private let canonical: CanonicalIDs
    private let patience: StormTape.Patience

    /// What the app that is installed now declares; an older app knows less.
    private var installed: Schema
    /// What its first app declared.
    private(set) var beganWith: Schema
    /// What the last process declared.
    private var declared: Schema?
    /// Counts processes; a restored device has another number, and so other keys.
    private(set) var generation = 0
    private(set) var process: Process?
    var isSuspended = false
    /// By a jump of its clock a lease may end at any time.
    var hasJumped = false
    /// Another process of the app that has the files open, too.
    var second: SecondProcess?
    /// Counts them.
    private(set) var seconds = 0
    /// Whether the user is at that one just now, where it lives.
    var usesSecond = false
    /// Sees the second process, with its number, come to stand still.
    var onStanding: (FaultTape.Standing, Int) -> Void = { _, _ in }
    /// The files at the moment of the kill that nobody has dealt with yet.
    private(set) var picture: [String: Data]?
    /// How often the system was started.
    var boot = 0
    /// The start of the system at which the files were opened last.
    private var openedAt: Int?
    /// How much of the write-ahead log is surely on the disk.
    var synced: LogFile.Synced?
    /// The files as they were backed up.
    var backup: [String: Data]?
    /// What its handlers were told.
    let told: ToldHandlers
    /// What its app knows its records by, also such as are not there any more.
    var names = LocalIDs()
    /// Whose they were then.
    var backupAccount = SimulatedDevice.account
    /// Its file was damaged, and no process has got over that.
    var isDamaged = false
    /// What its queue holds was ever saved from a damaged file.
    var wasSaved = false
    /// Its file was moved aside by the process that opened it last.
    private(set) var hasMovedAside = false
    /// What ``facts()`` finds now was checked.
    var wasChecked = false
    /// What ``facts()`` found last, and which processes there were then, with how many rows each had changed.
    private var known: (writers: [Int], facts: DeviceFacts)?
    /// What JSON texts in its columns mean.
    private var parsed: [String: FieldValue] = [:]
    /// Another process's connection that holds the file's lock.
    private var locker: DatabaseQueue?
    /// Whether another process holds the file's lock.
    var isLocked: Bool { locker != nil }

    init(
        index: Int, seed: UInt64, folder: DeviceFolder, server: any SimulatedServer,
        executor: SeededExecutor,
        record: Record, options: SimulationOptions, limits: RequestLimits, ids canonical: CanonicalIDs,
        patience: StormTape.Patience,
        clockOffset: Int64, clockRate: Double
    ) {
        self.index = index
        self.seed = seed
        self.folder = folder
        self.executor = executor
        self.record = record
        self.options = options
        self.limits = limits
        self.canonical = canonical
        told = ToldHandlers(canonical, passesBy: options.bug == .handlersUntold ? 5 : nil)
        conditions = options.hasConditions ? DeviceConditions(seed: seed, device: index) : nil
        self.patience = patience
        installed = options.schema
        beganWith = options.schema
        wallClock = ManualWallClock(
            ManualWallClock.usualStart + clockOffset, following: executor.clock, rate: clockRate)
        network = DeviceNetwork(device: index, server: server, clock: executor.clock, record: record, ids: canonical)
        ids = SeededIDs(seed: SeededGenerator.mixed(seed, UInt64(1_000 + index)))
        hook.note = { [record] text in record.note("device \(index) \(text)") }
        hook.onCrash = { [weak self] in self?.takePicture() }
        network.keepsLease = { [unowned self] in keepsLease($0) }
        network.strikes = { [hook] in hook.timesStruck }
        network.isAnothers = { [unowned self] in isAnothers($0) }
        network.lease = { [unowned self] in seconds > 0 ? lease?.generation : nil }
        DiskShim.put(hook, under: folder.databasePath)
    }

    deinit { DiskShim.remove(folder.databasePath) }

    /// The process is dead and has not been followed by another.
    var isDead: Bool { hook.isDead }
    /// Whether any process has the files open.
    var isOpen: Bool { process != nil || second != nil }
    /// The process that does what the user asks for; `nil` where it stands still.
    var hand: Process? {
        if usesSecond, let second, !second.isSignedOut { return second.stands ? nil : second.process }
        return isSuspended ? nil : process
    }

    /// What its user wants of the network, where that is anything.
    var conditions: DeviceConditions?
    /// What its user holds back.
    var heldBack: [RecordKey: HeldBack] = [:]
    static let account = "user"
    /// Who is signed in.
    var account = SimulatedDevice.account {
        didSet {
            network.account = account
            hadGuest = true
            heldBack = [:]
        }
    }
    /// Whether anybody else ever was.
    private(set) var hadGuest = false

    // MARK: Life and death

    /// Another version of the app is installed; it counts from the next start on.
    func install(_ schema: Schema) {
        installed = schema
        if generation == 0 { beganWith = schema }
    }

    /// What the app that runs now declares.
    var schema: Schema { process?.store.schema ?? installed }
    /// Its app's writes are marked in the rows, and become changes when somebody asks for them.
    var isFlagged: Bool { schema.entities.contains { $0.capture == .dirtyFlag } }

    /// Another user signs in over this one's file.
    /// - Returns: whether the file was kept from them (I10).
    func refusesOtherAccount() -> Bool {
        let struck = hook.timesStruck
        do {
            var configuration = StoreConfiguration()
            configuration.busyTimeout = 0
            configuration.installToken = nil
            configuration.clock = wallClock
            configuration.executor = executor.lane("other \(index)")
            let other = try Store(
                path: folder.databasePath, schema: schema, account: "other", configuration: configuration)
            try executor.complete(until: executor.clock.now) { try await other.close() }
            return false
        } catch let failure as StoreFailure {
            record.note("device \(index) refuses another account: \(failure.kind.rawValue)")
            // Where another process holds the lock, or the disk fails, nobody got as far as to look whose it is.
            return failure.kind == .refused || failure.kind == .busy && isLocked || hook.timesStruck > struck
        } catch { return false }  // kept: the caller tells
    }

    /// Opens the files and starts the engine.
    /// - Throws: what the store threw; a device that dies while it opens is dead afterwards.
    func start() throws {
        generation += 1
        hook.revive(isUpgrade: declared.map { $0 != installed } ?? false)
        network.end(generation - 1)
        process = try open("", generation, life: nil)
        record.note("device \(index) starts")
    }

    /// Another process of the app opens the files, and starts an engine.
    /// - Throws: what the store threw.
    func startSecond(_ standing: FaultTape.Standing?) throws -> SecondProcess {
        seconds += 1
        let life = SecondProcess.Life()
        // Its keys and ids are of other numbers than those of any process that comes after another.
        let process = try open("second ", SecondProcess.firstNumber + seconds, life: life)
        let second = SecondProcess(number: seconds, process: process, life: life, standing: standing)
        self.second = second
        record.note("device \(index) has a second process")
        return second
    }

    /// - Parameters:
    ///   - number: of the process, by which its keys and its chance are others.
    ///   - life: of one that may die alone.
    private func open(_ name: String, _ number: Int, life: SecondProcess.Life?) throws -> Process {
        network.begin(number)
        let lane = executor.lane("\(name)device \(index).\(number)")
        let storeLane = executor.lane("\(name)store \(index).\(number)")
        let mixed = SeededGenerator.mixed(seed, UInt64(index * 1_000 + number))
        var configuration = StoreConfiguration()
        configuration.busyTimeout = 0
        configuration.installToken = nil
        configuration.clock = wallClock
        configuration.monotonicClock = executor.clock
        configuration.keySeed = Int64(bitPattern: mixed)
        configuration.fixesTriggerClock = true
        configuration.executor = storeLane
        configuration.systemStart = options.bug == .powerLossUnnoticed ? nil : "start \(boot)"
        configuration.readsByWriter = options.readsByWriter
        if options.derives { configuration.snapshots = DerivedCounts(installed).builders }
        configuration.statementHook = { [hook] sql in
            life?.isDead == true ? sql().hasPrefix("ROLLBACK") : hook.statement(sql)
        }
        let store = try Store(
            path: folder.databasePath, schema: installed, account: account, configuration: configuration
        )
        declared = installed
        hasMovedAside = store.movedAside != nil
        if hasMovedAside, !isDamaged { record.violate("storage", "device \(index) moved a sound file aside") }
        // The first opening after a start of the system is committed with a sync.
        if openedAt != boot { noteSynced(all: true) }
        openedAt = boot
        if life == nil, let planted = options.bug?.sql {
            hook.isClearing = true
            defer { hook.isClearing = false }
            try store.database.write { try $0.execute(sql: planted) }
        }
        let told = try options.derives && life == nil ? listening(to: store) : nil
        store.database.add(transactionObserver: CommitFailer(hook, life), extent: .databaseLifetime)
        let stall = StallingClock.Switch()
        let watch = BreakerWatch(patience, clock: executor.clock, record: record)
        let hints =
            SimulatedHints.are(in: seed) ? SimulatedHints(network: network, seed: mixed ^ 3) : nil
        let way = way(to: store, of: number, stall)
        let engine = SyncEngine(
            store: store, exchange: way, hints: hints, connectivity: life == nil ? conditions?.platform : nil,
            handlers: options.hasHandlers
                ? self.told.handlers(installed) { [hook] in hook.isDead || life?.isDead == true } : [],
            deltas: options.deltas,
            configuration: configured(life),
            policy: UploadPolicy(
                limits: ClaimLimits(maxChanges: limits.ofDevices), goesBySender: options.sendsByREST),
            wallClock: wallClock, clock: options.clock(executor.clock, stall),
            randomness: SeededRandomness(seed: mixed ^ 1),
            ids: SeededIDs(seed: mixed ^ 2, start: wallClock.nowMilliseconds), metrics: watch)
        let flag = Flag()
        // `stop` and `bury` cancel it and drive it to its end.
        let sender =
            options.sendsSingly
            ? SingleSender(
                exchange: options.sendsByREST ? self.way(to: store, of: number, stall, isSingle: true) : way,
                store: store, ids: SeededIDs(seed: mixed ^ 4), sendsValues: options.sendsByREST) : nil
        let run = Task(executorPreference: lane) { [record, index] in  // owner: the process
            await withTaskGroup { group in
                if let sender {
                    group.addTask { await engine.uploads.run(sender: engine.noting(sender), gate: engine.gate()) }
                }
                do { try await engine.run() } catch { record.violate("engine", "device \(index): \(error)") }
                group.cancelAll()
            }
            flag.isSet = true
        }
        return Process(
            store: store, engine: engine, lane: lane, storeLane: storeLane, run: run, box: flag,
            calls: Calls(), watch: watch, told: told, hints: hints)
    }

    private func configured(_ life: SecondProcess.Life?) -> EngineConfiguration {
        guard life == nil else {
            return EngineConfiguration(process: SecondProcess.systemNumber, breaker: patience.breaker)
        }
        var configuration = EngineConfiguration(breaker: patience.breaker)
        if let conditions, options.bug != .conditionsIgnored {
            configuration.conditions = [.records: conditions.wanted]
        }
        return configuration
    }

    /// The way to the server, by which records are named as on this device.
    private func way(
        to store: Store, of number: Int, _ stall: StallingClock.Switch, isSingle: Bool = false
    ) -> any Exchange {
        let exchange = options.disturbed(port(of: number, isSingle: isSingle), stall)
        guard let waits = options.naming(seed) else { return exchange }
        return IDTranslatingExchange(exchange, schema: installed, translation: store, waits: waits)
    }

    private func port(of number: Int, isSingle: Bool) -> DeviceNetwork.Port {
        guard number > SecondProcess.firstNumber else { return network.port(of: number, isSingle: isSingle) }
        return network.port(of: number) { [unowned self] in secondSends() }
    }

    /// Kills the process where it stands.
    func kill() { hook.kill() }

    private func takePicture() {
        noteSynced()
        do { picture = try folder.photograph() } catch { record.violate("simulator", "\(error)") }
        // Nothing of the doomed code reaches the network any more.
        network.endAll()
    }

    /// Changes what the dead process leaves of a file.
    func cutPicture(_ name: String, _ cut: (Data) -> Data) {
        if let bytes = picture?[name] { picture?[name] = cut(bytes) }
    }

    /// The dead process does not leave this file.
    func dropFromPicture(_ name: String) { picture?[name] = nil }

    /// Clears away what a dead process left in memory, and makes the files what they were when it died.
    func bury() {
        unlock()
        endSecond()
        if let process { end(process) }
        process = nil
        do {
            if let picture { try folder.putBack(picture) }
        } catch { record.violate("simulator", "\(error)") }
        picture = nil
    }

    /// Ends the process in order.
    func stop() {
        guard let process else { return }
        end(process)
        self.process = nil
        record.note("device \(index) stops")
    }

    /// Ends the engine's run, and leaves the store open.
    func endEngine() {
        if let process { endRun(process) }
    }

    private func endRun(_ process: Process) {
        if process.box === self.process?.box { resume() } else { process.release() }
        process.run.cancel()
        process.calls.cancel()
        // What a call still does, it does on an open file.
        _ = executor.run(until: executor.clock.now, maxJobs: 1_000_000) { process.box.isSet && process.calls.areOver }
        if !process.box.isSet {
            record.violate("engine", "device \(index) did not end when it was cancelled")
        } else if !process.calls.areOver {
            record.violate("engine", "a call of device \(index)'s app did not end when it was cancelled")
        }
    }

    /// Ends the second process, in order or where it stands; it may be there or not.
    func endSecond(killed isKilled: Bool = false) {
        guard let second else { return }
        if isKilled {
            second.life.isDead = true
            network.end(SecondProcess.firstNumber + second.number)
        }
        end(second.process)
        network.end(SecondProcess.firstNumber + second.number)
        self.second = nil
        record.note("device \(index)'s second process \(isKilled ? "is killed" : "ends")")
    }

    private func end(_ process: Process) {
        endRun(process)
        hook.isClearing = hook.isDead
        defer { hook.isClearing = false }
        do {
            let store = process.store
            try executor.complete(until: executor.clock.now) { try await store.close() }
        } catch {
            // The last statement of a dead process may have been broken off; its connection is closed all the same.
            do { try process.store.database.close() } catch {
                record.violate("simulator", "device \(index) could not close: \(error)")
            }
        }
    }

    /// Puts the backup's files in the place of the present ones, as new files.
    func restoreBackup() throws {
        guard let backup else { return }
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            try FileManager.default.removeItem(atPath: folder.path + "/" + name)
        }
        // Something else takes the old inode, as on a disk that is in use.
        let blocker = folder.path + "/other"
        try Data("x".utf8).write(to: URL(fileURLWithPath: blocker))
        try folder.putBack(backup.merging(["other": Data("x".utf8)]) { $1 })
        try FileManager.default.removeItem(atPath: blocker)
    }

    /// For a planted mistake: the files do not say where they were.
    func forgetPlace() throws {
        let database = try DatabaseQueue(path: folder.databasePath)
        try database.write { try $0.execute(sql: "DELETE FROM sync_meta WHERE key = 'home'") }
        try database.close()
        // Another connection has been at the log, of which the mark would tell.
        let mark = folder.databasePath + "-log"
        if FileManager.default.fileExists(atPath: mark) { try FileManager.default.removeItem(atPath: mark) }
    }

    /// For a planted mistake: beside the files still stands what was noted of their log before they were closed.
    func stopUnnoted() throws {
        let mark = folder.databasePath + "-log"
        let before = FileManager.default.contents(atPath: mark)
        stop()
        try before?.write(to: URL(fileURLWithPath: mark))
    }

    // MARK: Standing still

    func suspend() {
        process?.hold()
        network.stands(generation)
        isSuspended = true
    }

    func resume() {
        process?.release()
        // What was told while it stood still is heard from here on.
        if isSuspended, conditions?.toldAt != nil { conditions?.toldAt = executor.clock.now.elapsed }
        isSuspended = false
    }

    /// Another process takes the file's write lock.
    func lock() {
        do {
            var configuration = Configuration()
            // The lock outlives the access on purpose.
            configuration.allowsUnsafeTransactions = true
            hook.isLookedAt = true
            defer { hook.isLookedAt = false }
            let other = try DatabaseQueue(path: folder.databasePath, configuration: configuration)
            try other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            locker = other
            hook.isLocked = true
        } catch { record.note("device \(index) could not be locked: \(error)") }
    }

    func unlock() {
        guard let locker else { return }
        hook.isLocked = false
        do {
            try locker.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
            try locker.close()
        } catch { record.violate("simulator", "\(error)") }
        self.locker = nil
    }

    // MARK: Looking

    /// What its tables say; `nil` if the process is not alive.
    func facts() -> DeviceFacts? {
        guard let process else { return nil }
        // Nobody but its processes writes into a living device's file; SQLite counts each row that a connection changes.
        let writers = [generation, process.changes, seconds, second?.process.changes ?? -1]
        if let known, known.writers == writers, !isDead { return known.facts }
        wasChecked = false
        let facts = read { try DeviceFacts($0, schema, &parsed, canonical) }
        if let facts { names.merge(facts.rows.names) }
        known = isDead ? nil : facts.map { (writers, $0) }
        return facts
    }

    /// Reads what is committed, with plain SQL, past the engine's code; `nil` if the process is not alive.
    func read<T>(_ body: (Database) throws -> T) -> T? {
        guard let process else { return nil }
        let wasLookedAt = hook.isLookedAt
        hook.isLookedAt = true
        defer { hook.isLookedAt = wasLookedAt }
        do { return try process.store.read(body) } catch {
            record.violate("simulator", "device \(index) cannot be read: \(error)")
            return nil
        }
    }
}

extension SeededGenerator {
    /// A number that follows from two.
    static func mixed(_ seed: UInt64, _ part: UInt64) -> UInt64 {
        var generator = SeededGenerator(seed: seed, stream: part)
        return generator.next()
    }
}
