import SyncCore

/// A record of a page as the first pass sees it: as strictly checked as one that is kept, but nothing is made of it.
struct SeenRecord {
    /// A text that is looked at where it stands, or had to be made to be looked at.
    private enum Text {
        case plain(Range<Int>)
        case made(String)

        init(_ reader: inout JSONReader) throws(JSONFailure) {
            if let range = try reader.readPlainText() {
                self = .plain(range)
            } else {
                self = .made(try reader.readString())
            }
        }

        func withBytes<T>(_ bytes: JSONBytes, _ body: (UnsafeRawBufferPointer) -> T) -> T {
            switch self {
            case .plain(let range): return bytes.withBytes(range, body)
            case .made(var text): return text.withUTF8 { body(UnsafeRawBufferPointer($0)) }
            }
        }
    }

    private var entity: Text?
    private var id: Text?
    private var shape = ToldShape()

    /// Reads a record with a reader whose tags are ``ToldShape/members``; unknown members are passed over.
    init(_ reader: inout JSONReader) throws(AnswerFault) {
        do throws(JSONFailure) {
            try reader.beginObject()
            while let member = try reader.nextTag() {
                switch member {
                case ToldShape.entity: entity = try Text(&reader)
                case ToldShape.id: id = try Text(&reader)
                case ToldShape.fields:
                    guard try !reader.readNull() else { continue }
                    shape.hasFields = true
                    try reader.skipObject()
                default: try shape.read(member, &reader)
                }
            }
        } catch {
            throw AnswerFault(error)
        }
    }

    /// The version, and a hash of the name in place of it, if the record is one of the contract's shape.
    func judge(in bytes: JSONBytes, _ hash: NameHash) throws(AnswerFault) -> (version: Int64, name: UInt64) {
        let entityHash = entity?.withBytes(bytes) { $0.isEmpty ? 0 : hash.of($0, after: 1) } ?? 0
        guard entityHash != 0 else { throw ToldShape.noEntity() }
        guard let id else { throw ToldShape.noID("none") }
        let name = id.withBytes(bytes) { RecordKey.isValidID(bytes: $0) ? hash.of($0, after: entityHash) : 0 }
        guard name != 0 else { throw ToldShape.noID("another") }
        return (try shape.judge().version, name)
    }
}

/// A quick hash of bytes that nobody outside can foresee: multiplied and folded ("wyhash", Wang Yi, 2019), with keys
/// that are new in each process.
struct NameHash {
    private let first: UInt64
    private let second: UInt64

    init() {
        func key(_ number: Int) -> UInt64 {
            var hasher = Hasher()
            hasher.combine(number)
            return UInt64(truncatingIfNeeded: hasher.finalize()) | 1
        }
        first = key(1)
        second = key(2)
    }

    /// Never 0.
    func of(_ bytes: UnsafeRawBufferPointer, after seed: UInt64) -> UInt64 {
        var hash = seed ^ first
        var index = 0
        while index + 8 <= bytes.count {
            hash = mix(hash ^ bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            index += 8
        }
        var rest: UInt64 = 0
        while index < bytes.count {
            rest = rest << 8 | UInt64(bytes[index])
            index += 1
        }
        hash = mix(mix(hash ^ rest) ^ UInt64(bytes.count))
        return hash == 0 ? 1 : hash
    }

    private func mix(_ value: UInt64) -> UInt64 {
        let (high, low) = value.multipliedFullWidth(by: second)
        return high ^ low ^ first
    }
}

/// The hashes of names that were seen; they are as good as random, so each is its own place in the table.
struct SeenHashes {
    /// 0 is an empty place.
    private var places = [UInt64](repeating: 0, count: 256)
    private var count = 0

    /// Returns whether `hash`, which is not 0, is new.
    mutating func insert(_ hash: UInt64) -> Bool {
        if count * 2 >= places.count { grow() }
        let isNew = put(hash)
        if isNew { count += 1 }
        return isNew
    }

    private mutating func put(_ hash: UInt64) -> Bool {
        let mask = places.count - 1
        var place = Int(truncatingIfNeeded: hash) & mask
        while places[place] != 0 {
            if places[place] == hash { return false }
            place = (place + 1) & mask
        }
        places[place] = hash
        return true
    }

    private mutating func grow() {
        let old = places
        places = [UInt64](repeating: 0, count: old.count * 4)
        for hash in old where hash != 0 { _ = put(hash) }
    }
}
