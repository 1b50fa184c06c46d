/// Ids as they stand in the bytes of a file, all of them looked for in one pass.
///
/// Ids are UUIDs in text: four hyphens at the same distances wherever one stands, in a live row, a freed page or a log
/// alike.
struct TracesOfIDs {
    private static let length = 36
    private static let hyphen = UInt8(ascii: "-")
    /// Where the hyphens are, from the first one on; the first is in place 8.
    private static let (first, distances) = (8, [5, 10, 15])
    private let ids: Set<String>

    /// - Parameter ids: those that are no UUIDs are left out; the simulator makes none.
    init(_ ids: some Sequence<String>) { self.ids = Set(ids.lazy.filter { $0.utf8.count == Self.length }) }

    /// Those of the ids that stand in the bytes, sorted.
    func found(in bytes: some Sequence<UInt8>) -> [String] {
        let all = ContiguousArray(bytes)
        guard !ids.isEmpty, all.count >= Self.length else { return [] }
        var found: Set<String> = []
        all.withUnsafeBufferPointer { all in
            for place in Self.first...(all.count - Self.length + Self.first) where all[place] == Self.hyphen {
                guard Self.distances.allSatisfy({ all[place + $0] == Self.hyphen }) else { continue }
                let start = place - Self.first
                let id = String(decoding: all[start..<(start + Self.length)], as: UTF8.self)
                if ids.contains(id) { found.insert(id) }
            }
        }
        return found.sorted()
    }
}
