import Foundation

/// The page size of a broken file (PRC-14): the app may have made it with another one than a new file has.
enum PageSize {
    private static let possible = (9...16).map { 1 << $0 }
    private static let format = Data("SQLite format 3\0".utf8)

    /// - Parameter start: the file's first 64 KiB, or all of it.
    /// - Returns: what its header says, where that begins as it should; else what the first page looks like. `nil` where neither says
    ///   anything.
    static func of(_ start: Data) -> Int? {
        let bytes = [UInt8](start)
        guard bytes.count >= 512 else { return nil }
        let said = number(bytes, 16) == 1 ? 1 << 16 : number(bytes, 16)
        if start.prefix(format.count) == format, possible.contains(said) { return said }
        // A page is filled from its end, and its first entry stays as long as its table.
        let ends = possible.map { (size: $0, end: endOfCells(bytes, $0)) }
        return ends.first { $0.end == $0.size }?.size ?? ends.first { $0.end != nil }?.size
    }

    /// As its header has it: 65,536 does not fit.
    static func field(_ size: Int) -> [UInt8] {
        size == 1 << 16 ? [0, 1] : [UInt8(size >> 8 & 0xff), UInt8(size & 0xff)]
    }

    /// Where the last cell of the first page ends, the root of the table of tables, if pages have this size
    /// (https://sqlite.org/fileformat.html, 1.6).
    /// - Returns: `nil` where they do not.
    private static func endOfCells(_ bytes: [UInt8], _ size: Int) -> Int? {
        let header = 100
        let isLeaf = bytes[header] == 13
        guard isLeaf || bytes[header] == 5, bytes.count >= size else { return nil }
        let first = header + (isLeaf ? 8 : 12)
        let count = number(bytes, header + 3)
        var end = number(bytes, header + 5)
        guard first + 2 * count <= size else { return nil }
        for cell in 0..<count {
            var place = number(bytes, first + 2 * cell)
            guard place < size else { return nil }
            if isLeaf {
                guard let (payload, next) = varint(bytes, place), let (_, body) = varint(bytes, next) else {
                    return nil
                }
                place = body + local(payload, size)
            } else {
                guard let (_, next) = varint(bytes, place + 4) else { return nil }
                place = next
            }
            end = max(end, place)
        }
        return end > 0 && end <= size ? end : nil
    }

    /// How much of so long an entry is in its page, with the number of the page on which it goes on.
    private static func local(_ payload: Int, _ size: Int) -> Int {
        guard payload > size - 35 else { return payload }
        let least = (size - 12) * 32 / 255 - 23
        let most = least + (payload - least) % (size - 4)
        return (most <= size - 35 ? most : least) + 4
    }

    private static func number(_ bytes: [UInt8], _ place: Int) -> Int { Int(bytes[place]) << 8 | Int(bytes[place + 1]) }

    private static func varint(_ bytes: [UInt8], _ place: Int) -> (value: Int, end: Int)? {
        var value = 0
        for step in 0..<9 {
            guard place + step < bytes.count else { return nil }
            let byte = bytes[place + step]
            // Longer ones are no lengths.
            guard value < 1 << 40 else { return nil }
            value = value << 7 | Int(byte & 0x7f)
            if byte < 0x80 { return (value, place + step + 1) }
        }
        return nil
    }
}
