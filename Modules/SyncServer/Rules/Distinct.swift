/// Tells whether something came before, without hashing it as long as everything comes in ascending order: keys that a
/// device made one after another, and sequences always.
struct Distinct<Element: Hashable & Comparable & Sendable>: Sendable {
    /// All of them in ascending order, until one comes out of it.
    private var ascending: [Element] = []
    /// All of them from then on.
    private var all: Set<Element>?

    /// Notes it; `false` if it came before.
    mutating func insert(_ element: Element) -> Bool {
        if all == nil {
            guard let last = ascending.last, !(last < element) else {
                ascending.append(element)
                return true
            }
            all = Set(ascending)
            ascending = []
        }
        return all?.insert(element).inserted ?? true
    }

    /// Whether it came before.
    func contains(_ element: Element) -> Bool {
        if let all { return all.contains(element) }
        guard let last = ascending.last, !(last < element) else { return false }
        return ascending.contains(element)
    }
}

/// The sequences of a request, by the device under which they were made; nearly all are of one.
struct UsedSequences: Sendable {
    private var device = ""
    private var present = Distinct<Int64>()
    private var others: [String: Distinct<Int64>] = [:]

    mutating func insert(_ sequence: Int64, of device: String) {
        turn(to: device)
        _ = present.insert(sequence)
    }

    mutating func contains(_ sequence: Int64, of device: String) -> Bool {
        turn(to: device)
        return present.contains(sequence)
    }

    private mutating func turn(to other: String) {
        guard other != device else { return }
        others[device] = present
        present = others.removeValue(forKey: other) ?? Distinct()
        device = other
    }
}
