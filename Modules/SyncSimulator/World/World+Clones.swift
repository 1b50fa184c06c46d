import Foundation
import GRDB
import SyncTesting

/// Two living devices that began as one: the files of one are copied to another phone, and both go on (PRC-19).
extension World {
    /// The device that began as a copy of another one's files.
    struct Clone {
        let index: Int
        let source: Int
        /// What was in the queue when the files were copied: either may send it.
        let common: Set<String>
        /// It was started.
        var lives = false
        /// Which of the two have written anything since.
        var wrote: Set<Int> = []
        /// What the copy, and the one that it was copied from, had an answer for.
        var heard: [Int: Set<String>] = [:]
    }

    /// The device's files are copied as they are at this moment, and another device begins with them some time later.
    /// - Parameter keepsNote: what stands beside the file is copied, too.
    func clone(_ source: Int, rests milliseconds: Int64, keepsNote: Bool) {
        let original = devices[source]
        guard clone == nil, original.process != nil, !original.isDead, original.account == SimulatedDevice.account,
            // What is marked in two files would be two changes.
            let facts = original.facts(), facts.marked.isEmpty
        else { return }
        let index = devices.count
        do {
            var files = try original.folder.photograph()
            if !keepsNote { files[DeviceFolder.database + "-device"] = nil }
            let device = try addDevice(declaring: original.schema)
            try device.folder.putBack(files)
            if options.bug == .copyUnnoticed { try device.forgetPlace() }
            device.names = original.names
            // What its queue holds may be from a damaged file (seed 167029 with `--conditions --derived --damage`).
            device.wasSaved = original.wasSaved
        } catch { return record.violate("simulator", "\(error)") }
        // What it is to know is what the other one knows now.
        ledgers[index] = ledgers[source]
        isOlder.insert(index)
        let common = Set(facts.queue.map(\.key))
        // What the server has said to the one is on its way to it.
        let heard = common.intersection(record.accepted)
        clone = Clone(index: index, source: source, common: common, heard: [source: heard])
        record.note("device \(index) is a copy of device \(source), with \(facts.queue.count) changes")
        agenda.add(.start(device: index), at: now + milliseconds)
    }

    /// The copy was started, for the first time.
    func noteCloneLives(_ index: Int) {
        guard clone?.index == index, clone?.lives == false else { return }
        clone?.lives = true
        record.struck("device cloned")
    }

    /// For the list of situations.
    func noteWrite(_ index: Int) {
        guard let clone, clone.lives, index == clone.source || index == clone.index else { return }
        let isFirst = self.clone?.wrote.insert(index).inserted ?? false
        if isFirst, self.clone?.wrote.count == 2 { record.cover(.deviceCloned) }
    }

    /// Which device a step of the tape is for: every second one of who was copied is for the copy.
    func device(of step: WorkloadTape.Step) -> Int {
        guard let clone, clone.source == step.device, step.number % 2 == 1 else { return step.device }
        return clone.index
    }

    /// What the server has done, as a device can know: what it has in common with a copy of itself counts once it had an answer
    /// of its own.
    func accepted(by index: Int) -> Set<String> {
        guard let clone, index == clone.source || index == clone.index else { return record.accepted }
        let unheard = clone.common.subtracting(clone.heard[index] ?? [])
        return unheard.isEmpty ? record.accepted : record.accepted.subtracting(unheard)
    }

    /// The server answers one of the two.
    func noteHeard(_ keys: some Sequence<String>, by index: Int) {
        guard var clone, index == clone.source || index == clone.index else { return }
        let common = clone.common.intersection(keys)
        guard !common.isEmpty else { return }
        clone.heard[index, default: []].formUnion(common)
        self.clone = clone
        let other = index == clone.source ? clone.index : clone.source
        if !(clone.heard[other] ?? []).isDisjoint(with: common) { record.cover(.sentByBothCopies) }
    }
}
