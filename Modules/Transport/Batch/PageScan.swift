import SyncCore

/// The first pass over a page: every record's shape, the order of versions, each record once; no values are made.
struct PageScan: Sendable {
    /// How often the memory of a mapped body is let go.
    static let stride = 1 << 20

    private(set) var count = 0
    private(set) var firstVersion: Int64?
    private(set) var lastVersion: Int64?
    private(set) var range: Range<Int> = 0..<0

    init(_ reader: inout JSONReader, _ body: AnswerBody) throws(AnswerFault) {
        // Hashes in place of keys, so that a page of 100,000 costs little; they are seeded anew in each process, so
        // that two records whose hashes meet by chance do not do so for ever.
        var seen = SeenHashes()
        let hash = NameHash()
        var released = 0
        _ = try reading { () throws(JSONFailure) in try reader.peek() }
        let start = reader.offset
        try reading { () throws(JSONFailure) in try reader.beginArray() }
        while try reading({ () throws(JSONFailure) in try reader.nextElement() }) {
            let record = try SeenRecord(&reader).judge(in: body.bytes, hash)
            if let lastVersion, record.version <= lastVersion {
                throw AnswerFault("records in version order", "\(record.version) after \(lastVersion)")
            }
            guard seen.insert(record.name) else { throw AnswerFault("each record at most once", "one twice") }
            firstVersion = firstVersion ?? record.version
            lastVersion = record.version
            count += 1
            if reader.offset - released > Self.stride {
                released = reader.offset
                body.release(before: released)
            }
        }
        range = start..<reader.offset
    }
}

/// The second pass: decodes the records of a proved page, as many at a time as are asked for.
final class AnswerPage: RecordPage {
    let count: Int
    private let body: AnswerBody
    private let place: Locked<Place>

    private struct Place: Sendable {
        var reader: JSONReader
        var left: Int
        var released: Int
    }

    init(_ body: AnswerBody, records: Range<Int>, count: Int) {
        self.body = body
        self.count = count
        var reader = JSONReader(body.bytes, range: records, depth: 1)
        reader.tags = ToldShape.members
        // What refuses here has refused in the first pass; `next` says so if it ever does.
        let opened = Result { () throws(JSONFailure) in try reader.beginArray() }
        if case .failure = opened { reader = JSONReader("[") }
        place = Locked(Place(reader: reader, left: count, released: records.lowerBound))
    }

    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        try place.withLock { place throws(ExchangeFailure) in
            do throws(AnswerFault) {
                return try read(&place, maxRecords: max(maxRecords, 1), maxBytes: maxBytes)
            } catch {
                throw ExchangeFailure(
                    kind: .network, message: "the kept page reads otherwise than before: expected \(error.expected)")
            }
        }
    }

    private func read(_ place: inout Place, maxRecords: Int, maxBytes: Int) throws(AnswerFault) -> [ServerRecord] {
        var records: [ServerRecord] = []
        records.reserveCapacity(min(maxRecords, place.left, 1000))
        let start = place.reader.offset
        while place.left > 0, records.count < maxRecords, records.isEmpty || place.reader.offset - start < maxBytes {
            guard try reading({ () throws(JSONFailure) in try place.reader.nextElement() }) else {
                throw AnswerFault("\(count) records", "\(count - place.left)")
            }
            records.append(try ToldRecord(&place.reader).record())
            place.left -= 1
        }
        if place.reader.offset - place.released > PageScan.stride {
            place.released = place.reader.offset
            body.release(before: place.released)
        }
        return records
    }
}
