internal import SyncCore

/// What a change to one record makes of others: of what is above it and under it, of scopes, of versions.
extension Ledger {
    /// Whether a change leaves a record under the very parents that it had, so that nobody need look for them: an update that
    /// names no reference, of a record of which each reference was found.
    func keepsParents(_ change: IncomingChange, _ entity: EntityRules, _ place: Int) -> Bool {
        guard change.operation == .update, entries[place].hasAllParents else { return false }
        return !change.fields.contains { field in entity.parents.contains { $0.field == field.name } }
    }

    /// Brings parents, root and death of a changed record up to date, gives versions to it and to what goes with it.
    mutating func follow(
        _ place: Int, _ ruling: RecordRuling, keepsParents: Bool, in source: some RecordSource
    ) throws {
        let oldParents = entries[place].parents
        let oldRoot = entries[place].root
        let wasDead = entries[place].isDead
        if !keepsParents {
            let newParents = try parents(of: place, in: source)
            entries[place].parents = newParents
            for parent in newParents where !oldParents.contains(parent) {
                let isNew = childrenAdded[parent, default: []].insert(place).inserted
                if isNew { before?.childrenAdded.append((parent, place)) }
            }
        }
        let root = entries[root(of: place)].row
        let isDead = isDead(place)
        let isNew = entries[place].version == 0
        let isMoved = root != oldRoot && !isNew
        // A change that readers cannot see (an edit of a dead record) is kept without a version.
        let isSeen = isNew || isMoved || isDead != wasDead || (ruling.hasEffect && !isDead)
        guard isSeen || ruling.hasEffect else { return }
        entries[place].root = root
        entries[place].isDead = isDead
        noteActivity(place, and: oldParents)
        guard isSeen else { return }
        giveVersion(place, leaving: isMoved ? oldRoot : nil)
        if isMoved || isDead != wasDead { try cascade(from: place, in: source) }
    }

    /// Everything under a record that died, lives again or moved: what that makes another gets a new version.
    private mutating func cascade(from place: Int, in source: some RecordSource) throws {
        var queue = [place]
        var next = 0
        var seen: Set<Int> = [place]
        while next < queue.count {
            for child in try children(of: queue[next], in: source) where seen.insert(child).inserted {
                followed += 1
                guard followed <= mostFollowed else { throw Problem.tooMuchFollows(mostFollowed) }
                let oldRoot = entries[child].root
                let root = entries[root(of: child)].row
                let isDead = isDead(child)
                guard root != oldRoot || isDead != entries[child].isDead else { continue }
                keep(child)
                entries[child].root = root
                entries[child].isDead = isDead
                entries[child].isTouched = true
                entries[child].isEcho = false
                noteActivity(child, and: [])
                if entries[child].version > 0 { giveVersion(child, leaving: root != oldRoot ? oldRoot : nil) }
                queue.append(child)
            }
            next += 1
        }
    }

    private mutating func children(of place: Int, in source: some RecordSource) throws -> [Int] {
        var found = childrenAdded[place] ?? []
        if entries[place].isKept {
            for key in try source.children(of: entries[place].row) {
                if let child = try find(key, in: source) { found.insert(child) }
            }
        }
        return found.filter { entries[$0].parents.contains(place) }.sorted { entries[$0].row < entries[$1].row }
    }

    private mutating func giveVersion(_ place: Int, leaving oldRoot: Int64?) {
        head += 1
        entries[place].version = head
        entries[place].unit = unit
        touch(root: entries[place].root)
        if let oldRoot {
            touch(root: oldRoot)
            leavings.append(Leaving(root: oldRoot, row: entries[place].row, version: head))
        }
    }

    /// The newest commit of a record is the newest of everything above it; a move touches both parents.
    ///
    /// Above a record that is noted all are noted: whoever gets another parent passes here again.
    private mutating func noteActivity(_ place: Int, and oldParents: [Int]) {
        if !entries[place].hasActivity {
            keep(place)
            entries[place].hasActivity = true
        }
        // Nearly every record of a request stands under one that was noted for another.
        let isNoted =
            oldParents.allSatisfy { entries[$0].hasActivity }
            && entries[place].parents.allSatisfy { entries[$0].hasActivity }
        if isNoted { return }
        var stack = oldParents + entries[place].parents
        while let above = stack.popLast() {
            guard !entries[above].hasActivity else { continue }
            keep(above)
            entries[above].hasActivity = true
            stack += entries[above].parents
        }
    }

    // MARK: - The tree

    /// The places of the records that the declared references name.
    private mutating func parents(of place: Int, in source: some RecordSource) throws -> [Int] {
        var found: [Int] = []
        var references = 0
        for parent in entries[place].entity.parents {
            guard case .string(let id) = entries[place].state.value(of: parent.field) else { continue }
            references += 1
            if let above = try find(RecordKey(parent.entity, id), in: source), !found.contains(above) {
                found.append(above)
            }
        }
        entries[place].hasAllParents = found.count == references
        return found
    }

    /// The record above all others, by the first reference of each; in a circle the first by name.
    func root(of place: Int) -> Int {
        var above = place
        // Whoever goes further than there are records goes round.
        for _ in entries.indices {
            guard let next = entries[above].parents.first else { return above }
            above = next
        }
        var first = above
        var next = entries[above].parents.first
        while let present = next, present != above {
            if entries[present].key < entries[first].key { first = present }
            next = entries[present].parents.first
        }
        return first
    }

    /// Whether a record, or one above it, is dead by its own writes.
    private func isDead(_ place: Int) -> Bool {
        if entries[place].state.isDead { return true }
        // Nearly every record has one parent or none, and no circle above it.
        var above = place
        for _ in 0..<8 {
            let parents = entries[above].parents
            guard let parent = parents.first else { return false }
            guard parents.count == 1 else { break }
            if entries[parent].state.isDead { return true }
            above = parent
        }
        var queue = entries[place].parents
        var seen = Set(queue)
        while let above = queue.popLast() {
            if entries[above].state.isDead { return true }
            for parent in entries[above].parents where seen.insert(parent).inserted { queue.append(parent) }
        }
        return false
    }
}
