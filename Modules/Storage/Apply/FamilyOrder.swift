import SyncCore

/// The order in which records that stand under each other are gone through.
enum FamilyOrder {
    /// A record and everything under it, each behind all that it stands under, but for circles: taken from the end, no row goes
    /// by a foreign key of the app's before it was looked at.
    ///
    /// A record may have several parents, also of its own entity: one that is found early by one of them may stand under another that is
    /// found late (seed 24366).
    /// - Parameter children: the records directly under one.
    static func parentsFirst(
        _ record: RecordKey, _ children: (RecordKey) throws -> [RecordKey]
    ) rethrows -> [RecordKey] {
        var seen: Set<RecordKey> = [record]
        var done: [RecordKey] = []
        // Those on the way down, each with what is still to be gone through under it.
        var way: [(key: RecordKey, rest: [RecordKey])] = [(record, try children(record))]
        while let last = way.indices.last {
            if let child = way[last].rest.popLast() {
                if seen.insert(child).inserted { way.append((child, try children(child))) }
            } else {
                done.append(way.removeLast().key)
            }
        }
        return done.reversed()
    }
}
