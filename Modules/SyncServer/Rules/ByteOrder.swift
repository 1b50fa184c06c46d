extension UnsafeRawBufferPointer {
    /// How these bytes stand to others in the order of bytes, which is SQLite's between texts: below 0, 0 or above.
    func order(to other: UnsafeRawBufferPointer) -> Int {
        let shared = Swift.min(count, other.count)
        var index = 0
        while index + 8 <= shared {
            let here = loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let there = other.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            if here != there { return here.bigEndian < there.bigEndian ? -1 : 1 }
            index += 8
        }
        while index < shared {
            if self[index] != other[index] { return self[index] < other[index] ? -1 : 1 }
            index += 1
        }
        return count - other.count
    }
}
