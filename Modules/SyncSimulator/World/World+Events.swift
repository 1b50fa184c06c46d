import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting

extension World {
    func perform(_ event: Agenda.Event) {
        switch event {
        case .step(let step): if record.localWrites < workload.goal { perform(step) }
        case .fault(let fault): perform(fault)
        case .start(let device): start(device)
        case .resume(let device): devices[device].resume()
        case .online(let device): devices[device].network.isOffline = false
        case .unlock(let device): devices[device].unlock()
        case .signIn(let device):
            devices[device].network.tokens.signIn()
            settle(device) { await $0.engine.trigger(.reconnected) }
        case .signBack(let device): signBack(device)
        case .unpause(let device): unpause(device)
        case .calm: calm()
        case .second(let event, let device, let number): perform(event, of: number, on: device)
        }
    }

    /// Does something with a living device at this moment, without letting the time go on.
    /// - Returns: `nil` where the device is down, stands still, or dies over it.
    @discardableResult
    func settle<T: Sendable>(
        _ index: Int, _ body: @escaping @Sendable (SimulatedDevice.Process) async throws -> T
    ) -> T? {
        let device = devices[index]
        guard let process = device.hand, !device.isDead else { return nil }
        let struck = device.hook.timesStruck
        do {
            let result = try executor.complete(until: executor.clock.now) { try await body(process) }
            return device.isDead ? nil : result
        } catch let failure as StoreFailure {
            record.note("device \(index): \(failure.kind.rawValue): \(failure.message)")
            // What was let go, or may go since the network is another, may be decided in the moment between a look and a word (seed 2006
            // with `--drafts --single`).
            let mayBeDecided = options.hasDrafts || options.hasConditions
            if !device.isDead, failure.kind != .notFound || !mayBeDecided,
                !Self.isExplained(failure.kind, isLocked: device.isLocked, device.hook.timesStruck > struck)
            {
                record.violate("storage", "device \(index): \(failure.kind.rawValue): \(failure.message)")
            }
        } catch let stalled as SeededExecutor.Stalled {
            if !device.isDead { record.violate("I2 of liveness", "device \(index): a call \(stalled)") }
        } catch { record.violate("engine", "device \(index): \(error)") }
        return nil
    }

    /// Whether what goes wrong just now makes a call fail so. What users ask for is always possible, and is said of
    /// what is there: nothing explains `invalid`, `notFound` or `refused`.
    /// - Parameters:
    ///   - isLocked: another process holds the file's lock.
    ///   - isStruck: the device's disk failed while the call ran.
    static func isExplained(_ kind: StoreFailure.Kind, isLocked: Bool, _ isStruck: Bool) -> Bool {
        switch kind {
        case .busy: isLocked || isStruck
        case .full, .io: isStruck
        case .corrupt, .readOnly, .unexpected, .invalid, .notFound, .refused: false
        }
    }

    // MARK: What users do

    private func perform(_ step: WorkloadTape.Step) {
        let index = device(of: step)
        let device = devices[index]
        device.usesSecond = device.second?.isSignedOut == false && step.number % 2 == 0
        defer { device.usesSecond = false }
        guard device.process != nil, device.hand != nil, !device.isDead else { return }
        if options.hasConditions { workOnConditions(step, index) }
        if options.waitsForSettled { waitForSettled(step, index) }
        // What is let go may be on its way at once, and decided: a user who looks has seen it wait.
        let hasLetGo = options.hasDrafts && workOnDrafts(step, index)
        guard let hand = device.hand, !device.isDead else { return buryTheDead() }
        if !hasLetGo { perform(step, by: hand, index) }
        if options.waitsForSettled { checkSettled(index) }
        buryTheDead()
        check(index)
    }

    private func perform(_ step: WorkloadTape.Step, by hand: SimulatedDevice.Process, _ index: Int) {
        switch step.action {
        case .syncNow:
            confirm(index)
            let wish = SyncWish(seed: seed, step: step.number)
            record.note("device \(index) wishes \(wish)")
            hand.calls.sync(hand, wish) { [record] end in
                if wish != .atOnce, end == .cancelled { record.cover(.roundGivenUp) }
                if case .notNow(nil, let cause)? = end, cause != "paused" { record.cover(.conditionsHeld) }
            }
        case .cancel(let number): cancel(index, number)
        case .retry(let number): repair(index, number, discards: false)
        case .discard(let number): repair(index, number, discards: true)
        case .create, .update, .transaction, .move, .delete, .remake, .rewrite: write(step, index)
        }
    }

    private func cancel(_ index: Int, _ number: UInt64) {
        let facts = devices[index].facts()
        let waiting = facts?.queue.filter { $0.state <= 2 || options.hasDrafts && $0.state == 3 } ?? []
        guard !waiting.isEmpty else { return }
        let key = waiting[Int(number % UInt64(waiting.count))].key
        let needing = settle(index) { try await $0.store.dependants(of: key) } ?? []
        guard let outcome = settle(index, { try await $0.store.cancel(key) }) else {
            return noteUnsure(index, [key] + needing)
        }
        record.note("device \(index) cancels \(key.suffix(6)): \(outcome)")
        switch outcome {
        case .cancelled(let keys):
            record.cover(.cancelled)
            ledgers[index].set(.cancelled, for: keys)
        case .inverse:
            // It was sent, so it is still to be decided; but what it wrote is not what the user wants to see.
            record.cover(.takenBackByInverse)
            ledgers[index].set(.undone, for: [key])
            let left = Set(devices[index].facts()?.queue.map(\.key) ?? [])
            ledgers[index].set(.cancelled, for: needing.filter { !left.contains($0) })
            ledgers[index].set(.undone, for: needing.filter(left.contains))
        case .tooLate: break
        }
    }

    /// A call that failed changed nothing; one over which the device died may have.
    func noteUnsure(_ index: Int, _ keys: [String]) {
        if devices[index].isDead { ledgers[index].set(.unsure, for: keys) }
    }

    // MARK: What happens to them

    private func perform(_ fault: FaultTape.TimedFault) {
        record.note("fault \(fault)")
        switch fault {
        case .crash(let index):
            guard devices[index].process != nil else { return }
            devices[index].kill()
            buryTheDead()
        case .restart(let index):
            guard devices[index].process != nil, !devices[index].isDead else { return }
            do {
                try staysItself(index) {
                    if options.bug == .closingUnnoted {
                        try devices[index].stopUnnoted()
                    } else {
                        devices[index].stop()
                    }
                    record.struck("restart")
                    start(index)
                }
            } catch { record.violate("simulator", "\(error)") }
        case .suspended(let index, let milliseconds):
            guard devices[index].process != nil, !devices[index].isDead else { return }
            devices[index].suspend()
            record.cover(.suspension)
            record.struck("suspension")
            agenda.add(.resume(device: index), at: now + milliseconds)
        case .offline(let index, let milliseconds):
            devices[index].network.isOffline = true
            devices[index].endHints()
            agenda.add(.online(device: index), at: now + milliseconds)
        case .clockJump(let index, let milliseconds):
            devices[index].wallClock.advance(milliseconds: milliseconds)
            devices[index].hasJumped = true
            record.cover(.clockJump)
            if milliseconds != 0 { record.struck("clock jump") }
        case .lockedFile(let index, let milliseconds):
            guard devices[index].process != nil, !devices[index].isDead else { return }
            devices[index].lock()
            agenda.add(.unlock(device: index), at: now + milliseconds)
        case .pause(let index, let milliseconds):
            if settle(index, { await $0.engine.pause() }) != nil { paused[index] = devices[index].generation }
            agenda.add(.unpause(device: index), at: now + milliseconds)
        case .expiredToken(let index, let milliseconds):
            // Half of the apps get another one by themselves.
            devices[index].network.tokens.expire(refreshes: milliseconds % 2 == 0)
            agenda.add(.signIn(device: index), at: now + milliseconds)
        case .otherAccount(let index):
            guard devices[index].process != nil, !devices[index].isDead else { return }
            devices[index].stop()
            if !devices[index].refusesOtherAccount() {
                record.violate("I10", "device \(index) opens another's file")
            }
            record.cover(.otherAccount)
            record.struck("other account")
            start(index)
        case .update(let index): update(index)
        case .powerLoss(let index): losePower(index)
        case .signOut(let index, let flushes, let milliseconds):
            signOut(index, flushes: flushes, for: milliseconds)
        case .scopes(let index, let pick): choose(index, pick)
        case .move(let index, let number): if record.localWrites < workload.goal { move(index, number) }
        case .storm(let storm, let milliseconds): begin(storm, for: milliseconds)
        case .backup: backUpServer()
        case .restoredServer: restoreServer()
        case .forgottenTombstones:
            // They are kept for longer than a full pass may take (Decision 255, seed 3007444 with `--bias histories`).
            if devices.contains(where: { $0.facts()?.isInFullPass == true }) { return }
            if server.forgetTombstones() { record.struck("forgotten tombstones") }
        case .deviceBackup(let index): backUp(index)
        case .restoredDevice(let index): restore(index)
        case .secondProcess(let index, let milliseconds, let stands, let isKilled):
            openSecond(index, for: milliseconds, standing: stands, isKilled: isKilled)
        case .damagedFile(let index, let damage, let pick, let statements):
            self.damage(index, damage, pick: pick, crashAfter: statements)
        case .clonedDevice(let index, let rests, let keepsNote): clone(index, rests: rests, keepsNote: keepsNote)
        }
    }

    /// PRC-19: who closes its files and opens them again, or opens them in another process, too, is the same device.
    func staysItself(_ index: Int, _ body: () throws -> Void) rethrows {
        let device = devices[index]
        let (before, struck) = (device.facts()?.deviceID, device.hook.timesStruck)
        try body()
        guard let before, !device.isDead, device.hook.timesStruck == struck, let after = device.facts()?.deviceID else {
            return
        }
        guard before == after else {
            return record.violate("identity", "device \(index) opened its own files, and takes itself for a copy")
        }
        record.cover(.sameDevice)
    }

    /// The version of the app that the others have is installed and started.
    func update(_ index: Int) {
        let device = devices[index]
        guard device.schema != options.schema else { return }
        device.install(options.schema)
        record.note("device \(index) is updated")
        record.cover(.mixedSchemas)
        record.struck("older app")
        endSecond(index)
        guard device.process != nil, !device.isDead else { return }
        device.stop()
        start(index)
    }

    private func losePower(_ index: Int) {
        guard devices[index].process != nil, !devices[index].isDead else { return }
        let loss = devices[index].losePower(&powers)
        record.note("device \(index) loses \(loss.lost) frames\(loss.isInCheckpoint ? ", in a checkpoint" : "")")
        record.struck("power loss")
        if loss.lost > 0 { record.cover(.powerLoss) }
        if loss.isInCheckpoint { record.cover(.powerLossInCheckpoint) }
        isOlder.insert(index)
        buryTheDead()
    }

    /// After a power loss, as after a restore and in a copy, what the files hold counts again, and the rest is lost.
    func forgetLost(_ index: Int) {
        guard isOlder.remove(index) != nil else { return }
        if devices[index].hasMovedAside {
            devices[index].wasSaved = true
            record.cover(.damagedFile)
            // Until then it is damaged where nobody has looked yet (seed 3220057 with `--damage --bias histories`).
            devices[index].isDamaged = false
        }
        forgetNames(index)
        devices[index].told.begin(with: devices[index].facts())
        memories[index].restored()
        vanishings[index].restored()
        reappearances[index].restored()
        let kept = standAgain(index)
        if let lost = legible.removeValue(forKey: index)?.subtracting(kept), !lost.isEmpty {
            record.violate("PRC-14", "device \(index) did not save \(lost.sorted()), which can be read")
        }
        if spared.remove(index) == nil { ledgers[index].restored(kept) }
        noteCloneLives(index)
    }

    private func backUp(_ index: Int) {
        let device = devices[index]
        guard device.process != nil, !device.isDead, !device.isFlagged || device.facts()?.marked.isEmpty == true else {
            return
        }
        do {
            device.backup = try device.folder.photograph()
            device.backupAccount = device.account
        } catch {
            record.violate("simulator", "\(error)")
        }
    }

    /// The device's files are replaced by older ones; what was made since is lost with the old device.
    private func restore(_ index: Int) {
        let device = devices[index]
        // An app that finds another account's file signs that account out first.
        guard device.backup != nil, device.backupAccount == device.account, device.process != nil, !device.isDead else {
            return
        }
        endSecond(index)
        device.stop()
        device.heldBack = [:]
        do { try device.restoreBackup() } catch { return record.violate("simulator", "\(error)") }
        start(index)
        attempts[index] = nil
        forgetNames(index)
        device.told.begin(with: device.facts())
        memories[index].restored()
        vanishings[index].restored()
        reappearances[index].restored()
        ledgers[index].restored(standAgain(index))
        record.cover(.deviceRestored)
        record.struck("device restored")
    }

    /// What is in an older file's queue stands where it stood then.
    private func standAgain(_ index: Int) -> Set<String> {
        let queue = devices[index].facts()?.queue ?? []
        if options.hasDrafts {
            for change in queue { ledgers[index].moved(change.key, to: change.sequence) }
        }
        return Set(queue.map(\.key))
    }
}
