import SyncTesting

extension World {
    /// The device's file is damaged while nobody has it open (PRC-14): the next process moves it aside, and goes on with what it can read.
    ///
    /// What is not in the new queue is lost with the old file, but where all of it can be read: then nothing is.
    func damage(_ index: Int, _ damage: FaultTape.Damage, pick: UInt64, crashAfter statements: Int?) {
        let device = devices[index]
        guard device.process != nil, !device.isDead, device.account == SimulatedDevice.account, !device.isFlagged else {
            return
        }
        endSecond(index)
        let queue = device.read { try LegibleQueue($0) }
        // With a log beside it, or without one.
        if pick >> 1 & 1 == 0 {
            device.stop()
        } else {
            device.kill()
            device.bury()
        }
        do {
            var file = DamagedFile(
                path: device.folder.databasePath, damage: damage, keys: queue?.keys ?? [],
                chance: SeededGenerator(seed: pick))
            if try file.write() { spared.insert(index) }
            legible[index] = try queue?.keys(in: device.folder)
        } catch { return record.violate("simulator", "\(error)") }
        record.note("device \(index)'s file is damaged: \(damage)")
        record.struck("damaged file")
        device.isDamaged = true
        isOlder.insert(index)
        attempts[index] = nil
        // Another user signs in first.
        if spared.contains(index), pick % 2 == 0, !device.refusesOtherAccount() {
            record.violate("I10", "device \(index) opens another's damaged file")
        }
        if let statements { device.hook.crashes.insert(device.hook.statements + statements) }
        start(index)
    }
}
