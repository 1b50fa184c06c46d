/// A member's place in its dictionary, with the beginning of its name to sort by.
@usableFromInline
package struct PlacedMember<Index> {
    /// The first eight bytes of the name's UTF-8, the first one highest.
    @usableFromInline package var prefix: UInt64
    @usableFromInline package var index: Index

    @usableFromInline package init(prefix: UInt64, index: Index) {
        self.prefix = prefix
        self.index = index
    }
}

extension Dictionary where Key == String {
    /// The members in the order of their names' UTF-8 bytes: the same on every device, whatever the hashes.
    ///
    /// Inlinable, since sorting without knowing the type took a tenth of a push.
    @inlinable package var inByteOrder: [(key: String, value: Value)] {
        guard count > 1 else { return Array(self) }
        return placesInByteOrder.map { self[$0.index] }
    }

    /// Where the members stand, in the order of their names' UTF-8 bytes.
    ///
    /// Almost all names differ in their first eight bytes, which are compared as one number.
    @inlinable package var placesInByteOrder: [PlacedMember<Index>] {
        var places: [PlacedMember<Index>] = []
        places.reserveCapacity(count)
        var index = startIndex
        while index != endIndex {
            places.append(PlacedMember(prefix: keys[index].bytePrefix, index: index))
            formIndex(after: &index)
        }
        guard places.count <= 24 else {
            places.sort { precedes($0, $1) }
            return places
        }
        // A few are quickest put in one by one.
        var sorted = 1
        while sorted < places.count {
            let place = places[sorted]
            var slot = sorted
            while slot > 0, precedes(place, places[slot - 1]) {
                places[slot] = places[slot - 1]
                slot -= 1
            }
            places[slot] = place
            sorted += 1
        }
        return places
    }

    @inlinable
    func precedes(_ a: PlacedMember<Index>, _ b: PlacedMember<Index>) -> Bool {
        a.prefix != b.prefix ? a.prefix < b.prefix : keys[a.index].precedesByBytes(keys[b.index])
    }
}

extension String {
    /// The first eight bytes of the UTF-8, the first one highest; what is missing counts as zero.
    @usableFromInline package var bytePrefix: UInt64 {
        let fast = utf8.withContiguousStorageIfAvailable { text -> UInt64 in
            if text.count >= 8 {
                return UInt64(bigEndian: UnsafeRawPointer(text.baseAddress!).loadUnaligned(as: UInt64.self))
            }
            var prefix: UInt64 = 0
            for byte in text { prefix = prefix << 8 | UInt64(byte) }
            return text.isEmpty ? 0 : prefix << UInt64(64 - text.count * 8)
        }
        if let fast { return fast }
        var prefix: UInt64 = 0
        var left = 8
        for byte in utf8.prefix(8) {
            prefix = prefix << 8 | UInt64(byte)
            left -= 1
        }
        return left == 8 ? 0 : prefix << UInt64(left * 8)
    }

    /// Whether the UTF-8 of this comes before the UTF-8 of `other`.
    @usableFromInline package func precedesByBytes(_ other: String) -> Bool {
        let fast = utf8.withContiguousStorageIfAvailable { a in
            other.utf8.withContiguousStorageIfAvailable { b in
                let count = Swift.min(a.count, b.count)
                var index = 0
                while index < count {
                    if a[index] != b[index] { return a[index] < b[index] }
                    index += 1
                }
                return a.count < b.count
            }
        }
        if let fast, let fast { return fast }
        return utf8.lexicographicallyPrecedes(other.utf8)
    }
}
