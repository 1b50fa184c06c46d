public import SyncCore
import Foundation

/// A page that lies in memory.
public final class ArrayPage: RecordPage, @unchecked Sendable {
    // Sendable: `place` is used under `lock` alone.
    private let lock = NSLock()
    private let records: [ServerRecord]
    private var place = 0

    public init(_ records: [ServerRecord]) { self.records = records }

    public var count: Int { records.count }

    /// Records count as 64 bytes and what their names and texts hold; at least one comes, whatever its size.
    public func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        lock.withLock {
            var end = place
            var bytes = 0
            while end < records.count, end - place < max(maxRecords, 1) {
                bytes += records[end].roughSize
                if end > place, bytes > maxBytes { break }
                end += 1
            }
            defer { place = end }
            return Array(records[place..<end])
        }
    }
}

extension ServerRecord {
    /// About the bytes that it has on the wire.
    var roughSize: Int {
        fields.reduce(64) { $0 + $1.key.utf8.count + $1.value.roughSize }
    }
}

extension FieldValue {
    var roughSize: Int {
        switch self {
        case .null, .bool, .int, .double: 8
        case .string(let text): text.utf8.count + 2
        case .data(let bytes): bytes.count * 4 / 3 + 12
        case .array(let elements): elements.reduce(2) { $0 + $1.roughSize + 1 }
        case .object(let members): members.reduce(2) { $0 + $1.key.utf8.count + $1.value.roughSize + 4 }
        }
    }
}
