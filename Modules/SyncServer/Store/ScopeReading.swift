/// What one root has for those who ask for it, in version order and read a little at a time: its records, or what left it.
struct ScopeReading {
    /// A record at its place in a page.
    struct Place {
        var version: Int64
        var row: Int64
        /// The first version of the unit that gave it this one; 0 outside of units.
        var unit: Int64
        /// Whether it is told that the record left.
        var isLeaving: Bool
    }

    let root: Int64
    let isOfLeavings: Bool
    private(set) var places: [Place] = []
    /// Nothing is missing up to here, and no unit goes on behind it; above all versions where there is no more.
    private(set) var isWholeUpTo: Int64

    init(root: Int64, above checkpoint: Int64, isOfLeavings: Bool) {
        self.root = root
        self.isOfLeavings = isOfLeavings
        isWholeUpTo = checkpoint
    }

    /// Whether all is read.
    var isOver: Bool { isWholeUpTo == .max }

    /// Reads so many more, and on to the end of the unit that it is in then, however long that is: a delete takes all with it
    /// that stands under it.
    ///
    /// - Parameter each: gives the places above a version, in order, until it is told that no more are taken.
    mutating func read(_ count: Int, _ each: (_ version: Int64, _ take: (Place) -> Bool) throws -> Void) rethrows {
        let enough = places.count + count
        var next: Place?
        try each(isWholeUpTo) { place in
            if places.count >= enough, place.unit == 0 || place.unit != places.last?.unit {
                next = place
                return false
            }
            places.append(place)
            return true
        }
        guard let next else {
            isWholeUpTo = .max
            return
        }
        isWholeUpTo = max(places.last?.version ?? 0, (next.unit == 0 ? next.version : next.unit) - 1)
    }
}
