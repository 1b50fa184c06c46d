import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting

/// One seed's devices, server, tapes and time, driven from its beginning to the final checks by one thread.
final class World {
    let seed: UInt64
    let options: SimulationOptions
    let executor: SeededExecutor
    let record: Record
    let server: any SimulatedServer
    let workload: WorkloadTape
    let faults: FaultTape
    let limits: RequestLimits
    let ids: CanonicalIDs
    var devices: [SimulatedDevice] = []
    var ledgers: [Ledger] = []
    var memories: [Memory] = []
    var vanishings: [Vanishings] = []
    var reappearances: [Reappearances] = []
    /// Writes of which the app does not know whether they were committed.
    var attempts: [Int: Attempt] = [:]
    var agenda = Agenda()
    private let folder: String
    private var isComplete = false
    /// More requests of one device, in one seed, than anything explains: the most that was seen of all devices is 400.
    private static let mostRequests = 1_500
    /// A device sends without an end: the seed is over.
    private(set) var isRunaway = false
    private var restarts: SeededGenerator
    /// What comes to a device's disk before the power goes.
    var powers: SeededGenerator
    /// Users whose devices others use, by device; devices that died over a wipe.
    var shelves: [Int: Shelf] = [:]
    var unsureWipes: Set<Int> = []
    /// Devices that discarded a change without knowing whether the server had done it.
    var discardedUndecided: Set<Int> = []
    /// Processes whose app told them to pause, by device.
    var paused: [Int: Int] = [:]
    /// When the server is itself again.
    var stormEnd: Int64 = 0
    /// No device is told when nothing goes wrong any more.
    let healsGently: Bool
    /// The app sends again what history lost on the server.
    let restoresLost: Bool
    var healedAt: Int64 = 0
    /// Devices whose files are older than what they did, since their power went, or that are copies, and that have not been started
    /// since.
    var isOlder: Set<Int> = []
    /// Devices whose damaged file can be read as a whole.
    var spared: Set<Int> = []
    /// What of their queues can be read one by one: all of it is saved.
    var legible: [Int: Set<String>] = [:]
    /// The device that began as a copy of another one.
    var clone: Clone?
    /// Devices that no fault keeps from opening, and that do not open.
    private var unopened: Set<Int> = []

    init(seed: UInt64, options: SimulationOptions) throws {
        workload = WorkloadTape(seed: seed, bias: options.bias)
        faults = FaultTape(
            seed: seed, devices: workload.devices, duration: workload.duration, movesMuch: options.movesMuch,
            damagesFiles: options.damagesFiles, bias: options.bias)
        var options = options.varied(by: seed, choosesRoots: faults.choosesRoots)
        // Which reads come to the disk depends on who reads.
        if faults.hasFailingDisks { options.readsByWriter = true }
        self.seed = seed
        self.options = options
        executor = SeededExecutor(seed: seed)
        record = Record(executor: executor, keepsLines: options.keepsTrace, onLine: options.onLine)
        limits = RequestLimits(seed: seed)
        ids = CanonicalIDs(options.naming(seed) == nil ? nil : options.schema)
        restarts = SeededGenerator(seed: seed, .restarts)
        powers = SeededGenerator(seed: seed, .disks)
        var healing = SeededGenerator(seed: seed, .healing)
        healsGently = healing.chance(0.5)
        restoresLost = healing.chance(0.5)
        folder = options.folder + "/seed-\(seed)-\(UUID().uuidString)"  // live: a name only
        let serverClock = ManualWallClock(following: executor.clock)
        if options.usesReferenceServer(seed) {
            server = try ReferenceServer(
                folder: folder + "/server", schema: options.schema, clock: serverClock,
                virtual: executor.clock,
                seed: seed, record: record, maxChanges: limits.ofServer, ids: ids, bug: options.bug)
        } else {
            server = ModelBackend { [options, limits] account in
                ModelServer(
                    schema: options.schema, clock: serverClock, dataset: "d-\(account)",
                    pageLimit: 3 + Int(seed % 60), maxChanges: limits.ofServer)
            }
        }
        try setUp()
        (server as? ReferenceServer)?.parentID = { [unowned self] in await parentID(of: $1, on: $0) }
        record.onRequest = { [unowned self] request, device in self.saw(request, from: device) }
        record.onVerdicts = { [unowned self] keys, device in self.noteHeard(keys, by: device) }
        record.renumbers = options.hasDrafts
        record.isCommon = { [unowned self] key in self.clone?.common.contains(key) ?? false }
        record.isGivenUp = { [unowned self] key in
            self.ledgers.contains { $0.everGivenUp.contains(key) || $0.gaveUp(key) }
        }
        record.isWritten = { [unowned self] device, change, field, value in
            // A create that moved away from what was given up says what the row says, and an edit takes it up under its key (seed 282277).
            let isParent = self.options.schema[change.record.entity]?.field(field)?.reference?.isParent ?? false
            let last = change.operation == .create && isParent ? Int64.max : change.sequence
            return self.ledgers[device].names(field, value, in: change.record, upTo: last)
        }
    }

    /// Under which parent a device's file says that the server has a record.
    private func parentID(of record: RecordKey, on device: Int) async -> String? {
        do { return try await devices[device].process?.store.parentID(of: record) } catch {
            // kept: a disk that fails, or a file that is closed, says nothing.
            return nil
        }
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch {
            // kept: somebody else removed it: nothing is left behind either way.
        }
    }

    private func setUp() throws {
        for index in 0..<workload.devices {
            let schema = used.contains(.olderApp(device: index)) ? options.older : options.schema
            let device = try addDevice(declaring: schema)
            // Some devices make their tables themselves, and may die over it.
            if restarts.chance(0.75) {
                try options.templates.file(schema).write(to: URL(fileURLWithPath: device.folder.databasePath))
            }
        }
        for fault in used {
            switch fault {
            case .timed(let at, let timed): agenda.add(.fault(timed), at: at)
            case .server(let fault): server.suffer(fault)
            case .refusals, .deferrals, .request, .device, .clock, .olderApp: break
            }
        }
        rule(used)
        for step in workload.steps where !options.withoutSteps.contains(step.number) {
            agenda.add(.step(step), at: step.atMilliseconds)
        }
    }

    /// What the tape has, but for what is left out.
    private var used: [FaultTape.Fault] {
        faults.entries.filter { !options.withoutFaults.contains($0.number) }.map(\.fault).filter { fault in
            switch fault {
            case .timed(_, .secondProcess): !options.sendsSingly
            // Who sends before it has pulled may be told of a record's next life before it hears of its death (Docs/Limits.md; seed 1512 with
            // `--rest`).
            case .timed(_, .forgottenTombstones): !options.sendsByREST
            default: true
            }
        }
    }

    /// A device more, in a folder of its own, with what the tape has for it.
    func addDevice(declaring schema: Schema) throws -> SimulatedDevice {
        let index = devices.count
        let path = folder + "/device-\(index)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let patience = StormTape(seed: seed, duration: workload.duration).patience
        var (offset, rate) = (Int64(0), 1.0)
        for case .clock(index, let off, let drift) in used { (offset, rate) = (off, drift) }
        let device = SimulatedDevice(
            index: index, seed: seed, folder: DeviceFolder(path: path), server: server, executor: executor,
            record: record, options: options, limits: limits, ids: ids, patience: patience, clockOffset: offset,
            clockRate: rate)
        for fault in used { give(fault, to: device) }
        device.install(schema)
        devices.append(device)
        ledgers.append(Ledger())
        memories.append(Memory(readsBeside: options.sendsSingly))
        vanishings.append(Vanishings())
        reappearances.append(Reappearances())
        device.network.onDone = { [unowned self] in self.hint(at: $1, of: $0) }
        device.network.onAnswer = { [unowned self] answer, request, isOvertaken in
            var answer = answer
            // Of what another process has settled meanwhile nobody hears any more.
            if isOvertaken {
                let waiting = Set(self.devices[index].facts()?.queue.filter { $0.state != 4 }.map(\.key) ?? [])
                answer.results.removeAll { !waiting.contains($0.changeID) }
            }
            self.memories[index].heard(answer, of: request)
            let told = answer.results.compactMap(\.verdict.record)
            self.record.told(told)
            self.vanishings[index].heard(told)
            self.reappearances[index].heard(told)
            let open = Set(answer.results.lazy.filter(\.leavesOpen).map(\.changeID))
            self.reappearances[index].leftOpen(
                of: request.changes.lazy.filter { open.contains($0.id) }.map(\.record))
            let missing = Set(answer.results.lazy.filter(\.isNotFound).map(\.changeID))
            self.vanishings[index].missed(request.changes.lazy.filter { missing.contains($0.id) }.map(\.record))
        }
        device.onStanding = { [unowned self] standing, number in
            self.agenda.add(.second(.goesOn, device: index, number: number), at: self.now + standing.milliseconds)
        }
        device.network.onRecords = { [unowned self] in self.hears($0, index) }
        device.network.onFailure = { [unowned self] request in
            if self.hasClaimedMore(than: request, index) { self.record.cover(.claimPutBack) }
        }
        return device
    }

    private func give(_ fault: FaultTape.Fault, to device: SimulatedDevice) {
        switch fault {
        case .request(device.index, let number, let fault): device.network.faults[number] = fault
        case .device(device.index, .crashAtStatement(let number)): device.hook.crashes.insert(number)
        case .device(device.index, .failingDisk(let from, let count)):
            let failure: FaultTape.DiskFailure = [.full, .io, .busy][from % 3]
            device.hook.failures.append((from..<(from + count * 5), failure))
        case .device(device.index, .failingOpening(let number, let failure, let after)):
            device.hook.openings.append((number, failure, after))
        default: break
        }
    }

    /// Refusals and deferrals follow from the key alone, so that a repetition meets the same.
    private func rule(_ used: [FaultTape.Fault]) {
        var refused: [(UInt64, UInt64)] = []
        var deferred: [(UInt64, UInt64)] = []
        for fault in used {
            if case .refusals(let modulus, let remainder) = fault { refused.append((modulus, remainder)) }
            if case .deferrals(let modulus, let remainder) = fault {
                deferred.append((modulus, remainder))
            }
        }
        let (refusals, deferrals, record) = (refused, deferred, record)
        server.rule { key in
            let number = key.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
                ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3
            }
            if refusals.contains(where: { number % $0.0 == $0.1 }) {
                record.struck("refusal", of: key)
                return .reject(Rejection(code: .forbidden, message: "not today"))
            }
            if deferrals.contains(where: { (number >> 8) % $0.0 == $0.1 }) {
                record.struck("deferral", of: key)
                return .retry(afterSeconds: 3)
            }
            return .decide
        }
    }

    var now: Int64 {
        let (seconds, attoseconds) = executor.clock.now.elapsed.components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }

    // MARK: Phases

    /// Whether users have more to write.
    private var isAtWork: Bool {
        record.localWrites < workload.goal && now <= workload.steps.last?.atMilliseconds ?? 0
    }

    func run() -> SeedReport {
        for device in devices { start(device.index) }
        while let (at, event) = agenda.next(before: isAtWork ? .max : max(workload.duration, stormEnd)) {
            run(until: at)
            perform(event)
        }
        run(until: max(now, workload.duration, stormEnd))
        heal()
        if liveness(), resolve() {
            finalChecks()
            compareContents()
            isComplete = true
        }
        if !isComplete, record.violations.isEmpty { record.violate("I9", "the seed ended before its final checks") }
        explain()
        for device in devices { device.stop() }
        if executor.foreignJobs > 0 {
            record.violate("determinism", "\(executor.foreignJobs) jobs came from another thread")
        }
        return report()
    }

    /// For who reads the trace: what the devices know of the records that violations name.
    private func explain() {
        guard record.isRead, !record.violations.isEmpty else { return }
        let words = record.violations.flatMap {
            $0.message.split { !($0.isLetter || $0.isNumber || $0 == "-") }
        }
        let ids = Set(words.filter { $0.count >= 36 }.map { String($0.suffix(36)) })
        for device in devices {
            let lines = device.read { try Inspection.lines($0, about: ids) } ?? []
            for line in lines { record.note("device \(device.index) \(line)") }
        }
        for each in server.records(of: SimulatedDevice.account) where ids.contains(each.key.id) {
            record.note("server \(each.key) at \(each.version) \(each.presence) \(each.fields)")
        }
    }

    private func report() -> SeedReport {
        for device in devices {
            for _ in 0..<device.hook.timesLockedOut {
                record.cover(.lockedFile)
                record.struck("locked file")
            }
            for failure in FaultTape.DiskFailure.allCases {
                for _ in 0..<(device.hook.struck[failure] ?? 0) {
                    record.cover(failure.situation)
                    record.struck(failure.name)
                }
            }
            if device.hook.diedInTransaction { record.cover(.crashInTransaction) }
        }
        return summary()
    }

    private func summary() -> SeedReport {
        SeedReport(
            seed: seed, devices: devices.count, localWrites: record.localWrites, writers: record.writers.count,
            faults: record.faults,
            coverage: record.coverage, violations: record.violations, traceHash: executor.traceHash,
            trace: record.lines, requests: devices.reduce(0) { $0 + $1.network.requests },
            virtualTime: executor.clock.now.elapsed, isComplete: isComplete)
    }

    /// Lets everything run up to a time, and deals with devices that die on the way.
    func run(until milliseconds: Int64) {
        while true {
            let end = executor.run(until: .init(.milliseconds(milliseconds)), maxJobs: 2_000_000) {
                isRunaway || devices.contains { $0.isDead && $0.isOpen }
            }
            if isRunaway { return }
            if end == .exhausted { return record.violate("I12", "two million jobs without an end") }
            buryTheDead()
            for device in devices where device.network.hasDueCopies {
                let network = device.network
                do {
                    try executor.complete(until: executor.clock.now) { await network.deliverCopies() }
                } catch {
                    record.violate("simulator", "a late copy \(error)")
                }
            }
            if end != .condition { return }
        }
    }

    /// Clears away dead processes, and has new ones start some time later.
    func buryTheDead() {
        for device in devices where device.isDead && device.isOpen {
            record.cover(.crashAtStatement)
            record.struck("crash")
            device.bury()
            agenda.add(.start(device: device.index), at: now + Int64(restarts.below(15_000)))
        }
    }

    func start(_ index: Int) {
        let device = devices[index]
        guard device.process == nil else { return }
        for _ in 0..<5 {
            let struck = device.hook.timesStruck
            do {
                try device.start()
                record.cover(.restart)
                if !device.isDead {
                    unopened.remove(index)
                    adopt(index)
                    forgetLost(index)
                    lookAtWipe(index)
                    return beginConditions(index)
                }
            } catch {
                // The words hold the file's path, whose name is no part of what two runs are compared by.
                record.note("device \(index) did not open")
                record.detail("\(error)")
                let isStruck = device.hook.timesStruck > struck
                if isStruck { record.cover(.failedOpening) }
                let kind = (error as? StoreFailure)?.kind ?? .unexpected
                if !device.isDead, !Self.isExplained(kind, isLocked: device.isLocked, isStruck),
                    unopened.insert(index).inserted
                {
                    record.violate("storage", "device \(index) does not open: \(error)")
                }
            }
            if device.isDead { record.cover(.crashInOpening) }
            // It died, or failed, while it opened: another process tries at once.
            device.kill()
            device.bury()
        }
        device.hook.mend()
        agenda.add(.start(device: index), at: now + 1_000)
    }

    /// What stands in the place of others is known from here at the latest.
    private func saw(_ request: ExchangeRequest, from index: Int) {
        enterOwed(index)
        devices[index].told.note(request.changes)
        checkAccount(of: request, from: index)
        if options.hasDrafts { checkDrafts(of: request, from: index) }
        checkConditions(from: index)
        memories[index].tookNothing(of: request.changes.lazy.map(\.id))
        let units = Dictionary(grouping: request.changes.compactMap(\.unit)) { $0 }
        if units.values.contains(where: { $0.count > 1 }) { record.cover(.unitSent) }
        memories[index].sends(new: request.changes.map(\.id).filter { record.sent[$0] == nil })
        if limits.isSmall, !request.changes.isEmpty {
            record.cover(.smallRequests)
            if hasClaimedMore(than: request, index) { record.cover(.requestBeforeSettled) }
        }
        if devices[index].network.requests > Self.mostRequests {
            // It may be within one call, which ends where nothing answers.
            devices[index].network.isOffline = true
            if !isRunaway {
                isRunaway = true
                record.violate("I12", "device \(index) sent \(Self.mostRequests) requests, and goes on")
            }
        }
        let check = SentCheck(schema: options.schema)
        let early = check.premature(
            request.changes, ledgers[index], refused: record.refused, isThere: record.created.contains,
            wasSent: { record.sent[$0] != nil })
        for message in check.disorder(request.changes, ledgers[index]) + early {
            record.violate("I3", "device \(index): \(message)")
        }
        for change in request.changes {
            if let written = ledgers[index].entries[change.id], written.isOriginal {
                let isDivided = change.unit == nil && !written.unit.isEmpty
                // What was given up just now may have left another create in the queue (seed 65671).
                if isDivided, let facts = devices[index].facts() { ledgers[index].noteQueue(facts) }
                let isCircular = isDivided && ledgers[index].mayBeCircular(written)
                for difference in check.differences(written, change, isCircular: isCircular) {
                    record.violate(
                        "I1", "device \(index) sends \(change.id), \(change.record), \(difference)")
                }
            }
            ledgers[index].add(
                Ledger.Entry(
                    key: change.id, sequence: change.sequence, record: change.record,
                    operation: change.operation,
                    stamp: change.stamp))
        }
    }

    /// The device reads these records of a page.
    private func hears(_ records: [ServerRecord], _ index: Int) {
        record.told(records)
        vanishings[index].heard(records)
        reappearances[index].heard(records)
        memories[index].read(records)
    }

    /// Whether more is marked as being sent than is in the request.
    private func hasClaimedMore(than request: ExchangeRequest, _ index: Int) -> Bool {
        // Where the server makes ids, what needs a new record waits, and is claimed all the same.
        guard limits.isSmall, !ids.areTwo, !request.changes.isEmpty, !devices[index].isDead else { return false }
        let sql = "SELECT count(*) FROM sync_change WHERE state = 1"
        let marked = devices[index].read { try Int.fetchOne($0, sql: sql) ?? 0 } ?? 0
        return marked > request.changes.count
    }

    /// Takes over changes that were committed in the very moment in which the last process died.
    private func adopt(_ index: Int) {
        let unsure = devices[index].facts()?.undecided ?? []
        if unsure.contains(where: { record.accepted.contains($0.key) }) {
            record.cover(.crashBetweenEffectAndAcknowledgement)
        }
        if devices[index].isFlagged, !asksForQueue(index) { return }
        let known = ledgers[index].entries
        let device = devices[index]
        let found =
            device.read { [ids] in
                // The last attempt need not be what was marked: power may have taken that, and what was made of a mark before it.
                device.isFlagged
                    ? try Ledger.collected($0, above: 0, device.schema, ids) : try Ledger.changes($0, above: 0, ids)
            } ?? []
        enter(found.filter { known[$0.key] == nil }, of: device.isFlagged ? nil : attempts[index], in: index)
        attempts[index] = nil
        memories[index].tookNothing(of: devices[index].facts()?.queue.lazy.filter { $0.state != 4 }.map(\.key) ?? [])
    }

    // MARK: The server's history

    func backUpServer() { server.backUp() }

    /// So many changes that nobody has decided make a queue a full one.
    private static let fullQueue = 5

    func restoreServer() {
        guard server.restore() else { return }
        // A device that never synced knows of no epoch, so that this one is none that is new to it.
        let queues = devices.compactMap { $0.facts() }.filter { $0.epoch != nil }.map(\.undecided.count)
        if queues.contains(where: { $0 >= Self.fullQueue }) { record.cover(.newEpochWithFullQueue) }
        record.cover(.serverRestored)
        record.struck("server restored")
    }
}
