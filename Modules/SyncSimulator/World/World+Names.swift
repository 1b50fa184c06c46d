import Storage
import SyncCore

/// Servers that make their own ids: what devices call records, and what is seen of it.
extension World {
    /// The device's files are older ones, or nobody's: its app knows what they say.
    func forgetNames(_ index: Int) {
        // What is told again without a look tells no names.
        devices[index].names = devices[index].facts()?.rows.names ?? LocalIDs()
    }

    /// I7: where records have two ids, each stands under one of them, is referred to by that one, and is known by the other.
    func checkNames(_ device: SimulatedDevice, _ facts: DeviceFacts) {
        guard ids.areTwo else { return }
        for key in facts.rows.twins.sorted() { record.violate("I7", "device \(device.index) shows \(key) twice") }
        for stray in facts.rows.strays {
            // What was made under an id that a copy of this device used, too, and was given up, is nobody's (seed 2240). Nor is what another
            // one gave up, and made anew, or found again in an older file, after the server had heard of a reference to it (seed 55083).
            if record.isGivenUp(stray.target) { continue }
            let there = RecordKey(stray.target.entity, stray.id)
            let words = "\(stray.record).\(stray.field) names \(there), which is not there under this id"
            record.violate("I7", "device \(device.index): \(words)")
        }
        let other = facts.rows.rows.keys.sorted().compactMap { key -> (here: RecordKey, there: String)? in
            let (here, there) = (facts.rows.names.key(key), server.id(of: key, in: device.account))
            return here.id == there ? nil : (here, there)
        }
        guard !other.isEmpty, let store = device.process?.store else { return }
        do {
            let map = try store.serverIDs(of: Set(other.map(\.here)))
            for (here, there) in other where map[here] != there {
                let words = "\(here) is \(there) on the server, and by its map \(map[here] ?? "nothing")"
                record.violate("I7", "device \(device.index): \(words)")
            }
        } catch { record.violate("storage", "device \(device.index): \(error)") }
    }
}

extension CanonicalIDs {
    /// The records by the ids that a device's app has for them: of what it does not show it has the server's, as from a link.
    /// - Parameter there: what the server calls a record; one that it was told of by a delete first as the devices do (seed 357249).
    func local(
        _ records: Set<RecordKey>, _ shown: LocalIDs, _ store: Store, there: (RecordKey) -> String
    ) throws -> Set<RecordKey> {
        guard areTwo else { return records }
        return Set(
            try records.sorted().map { record in
                if shown.knows(record) { return shown.key(record) }
                let id = try store.localID(ofServerID: there(record), entity: record.entity)
                return RecordKey(record.entity, id)
            })
    }
}
