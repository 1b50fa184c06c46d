import SyncCore

/// An answer that is proved to be one, all but the values of its page, which are read later from where they stand.
struct ProvedAnswer: Sendable {
    var dataset: String?
    var epoch: String
    var currentSyncVersion: Int64
    var hasMore: Bool
    var serverTimeMilliseconds: Int64?
    var stamp: Stamp?
    var oldestVersion: Int64?
    var checksum: String?
    var results: [ChangeResult]
    /// How many records there are, and the bytes from the bracket that opens them to behind the one that closes them.
    var count: Int
    var records: Range<Int>
}

/// Checks a body whole, from its first byte to its last, against the request that it must answer (PROTOCOL.md,
/// section 1). Nothing of it leaves the module before that (I14).
struct AnswerReader {
    private let request: ExchangeRequest
    private let body: AnswerBody

    private var version: Int64?
    private var cycleID: String?
    private var dataset: String?
    private var epoch: String?
    private var currentSyncVersion: Int64?
    private var hasMore: Bool?
    private var serverTime: String?
    private var stamp: Stamp?
    private var oldestVersion: Int64?
    private var checksum: String?
    private var count: Int64?
    /// In the order of the request's changes.
    private var results: [ChangeResult?]?
    private var page: PageScan?

    /// - Parameter request: as it was sent: with those changes only that stood in it.
    private init(_ request: ExchangeRequest, _ body: AnswerBody) {
        self.request = request
        self.body = body
    }

    /// The answer in `body`, if it is one.
    static func read(_ body: AnswerBody, for request: ExchangeRequest) throws(AnswerFault) -> ProvedAnswer {
        var answer = AnswerReader(request, body)
        var reader = JSONReader(body.bytes)
        reader.tags = ToldShape.members
        try reading { () throws(JSONFailure) in try reader.beginObject() }
        while let name = try reading({ () throws(JSONFailure) in try reader.nextKey() }) {
            try answer.readMember(name, &reader)
        }
        try reading { () throws(JSONFailure) in try reader.finish() }
        body.release(before: body.count)
        return try answer.judge()
    }

    private mutating func readMember(_ name: String, _ reader: inout JSONReader) throws(AnswerFault) {
        switch name {
        case "results": results = try readResults(&reader)
        case "changedRecords": page = try PageScan(&reader, body)
        case "stamp":
            guard let text = try reading({ () throws(JSONFailure) in try reader.readOptionalString() }) else { return }
            guard let read = Stamp(text) else { throw AnswerFault("a stamp", "another text") }
            stamp = read
        default: try reading { () throws(JSONFailure) in try readScalar(name, &reader) }
        }
    }

    private mutating func readScalar(_ name: String, _ reader: inout JSONReader) throws(JSONFailure) {
        switch name {
        case "protocol": version = try reader.readInt()
        case "cycleID": cycleID = try reader.readString()
        case "dataset": dataset = try reader.readOptionalString()
        case "epoch": epoch = try reader.readString()
        case "currentSyncVersion": currentSyncVersion = try reader.readInt()
        case "hasMore": hasMore = try reader.readBool()
        case "serverTime": serverTime = try reader.readOptionalString()
        case "oldestVersion": oldestVersion = try reader.readNull() ? nil : reader.readInt()
        case "checksum": checksum = try reader.readOptionalString()
        case "count": count = try reader.readInt()
        default: try reader.skipValue()
        }
    }

    private func readResults(_ reader: inout JSONReader) throws(AnswerFault) -> [ChangeResult?] {
        let changes = request.changes
        var results = [ChangeResult?](repeating: nil, count: changes.count)
        // Servers mostly answer in the order in which they were asked; where one does not, places are looked up.
        var next = 0
        var places: [String: Int]?
        var names = ToldNames()
        var unnamed: [(place: Int, told: ToldResult)] = []
        try reading { () throws(JSONFailure) in try reader.beginArray() }
        while try reading({ () throws(JSONFailure) in try reader.nextElement() }) {
            if next < changes.count, results[next] == nil,
                let version = reader.takeObject(
                    "{\"changeID\":\"", changes[next].id, "\",\"verdict\":\"applied\",\"version\":")
            {
                results[next] = ChangeResult(
                    changeID: changes[next].id, verdict: .applied(version: version, overwrote: [:], serverID: nil))
                next += 1
                continue
            }
            let told = try ToldResult(&reader)
            guard let changeID = told.changeID else { throw AnswerFault("a result's changeID", "none") }
            // What was not asked is no verdict about anything.
            if next >= changes.count || changes[next].id != changeID {
                let all = places ?? Self.places(of: changes)
                places = all
                guard let place = all[changeID] else { continue }
                next = place
            }
            names.note(told.serverID, for: changes[next])
            if told.namesRecord(otherThan: changes[next], names) {
                unnamed.append((next, told))
            } else {
                try judge(told, next, names, &results)
            }
            next += 1
        }
        // The verdict that names a record may stand behind one that tells the record under that name.
        for (place, told) in unnamed { try judge(told, place, names, &results) }
        return results
    }

    private func judge(
        _ told: ToldResult, _ place: Int, _ names: ToldNames, _ results: inout [ChangeResult?]
    ) throws(AnswerFault) {
        let result = try told.result(for: request.changes[place], among: request.changes.lazy.map(\.id), names)
        if let other = results[place], other != result {
            throw AnswerFault("one verdict for a change", "two different ones")
        }
        results[place] = result
    }

    private static func places(of changes: [Change]) -> [String: Int] {
        Dictionary(changes.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// Compares what was told with what was asked.
    private func judge() throws(AnswerFault) -> ProvedAnswer {
        guard version == 1 else { throw AnswerFault("protocol 1", version.map { "\($0)" } ?? "none") }
        guard cycleID == request.cycleID else {
            throw AnswerFault("the request's cycleID", cycleID == nil ? "none" : "another")
        }
        if let asked = request.dataset, let dataset, dataset != asked {
            var fault = AnswerFault("the known data set", "another")
            fault.isOtherDataset = true
            throw fault
        }
        guard let epoch, !epoch.isEmpty else { throw AnswerFault("an epoch", "none") }
        if let asked = request.epoch, epoch != asked { throw AnswerFault("the request's epoch", "another") }
        guard let results else { throw AnswerFault("results", "none") }
        guard let hasMore else { throw AnswerFault("hasMore", "none") }
        guard let page else { throw AnswerFault("changedRecords", "none") }
        guard let count, count == page.count else {
            throw AnswerFault("a count of \(page.count) records", count.map { "\($0)" } ?? "none")
        }
        let current = try judgeVersions(page, hasMore: hasMore)
        return ProvedAnswer(
            dataset: dataset, epoch: epoch, currentSyncVersion: current, hasMore: hasMore,
            serverTimeMilliseconds: serverTime.flatMap(CalendarTime.rfc3339), stamp: stamp,
            oldestVersion: oldestVersion, checksum: checksum,
            results: results.compactMap { $0 }, count: page.count, records: page.range)
    }

    private func judgeVersions(_ page: PageScan, hasMore: Bool) throws(AnswerFault) -> Int64 {
        let least = request.scopes.map { $0.values.min() ?? 0 } ?? request.lastSyncVersion
        let greatest = request.scopes.map { $0.values.max() ?? 0 } ?? request.lastSyncVersion
        guard let current = currentSyncVersion else { throw AnswerFault("currentSyncVersion", "none") }
        // A checkpoint above the server's own is told by 410 only.
        guard current >= (hasMore ? least : greatest) else {
            throw AnswerFault("a currentSyncVersion not below the checkpoint \(greatest)", "\(current)")
        }
        guard !hasMore || current > least else {
            throw AnswerFault("progress beyond \(least) with hasMore", "none")
        }
        if let first = page.firstVersion, first <= least {
            throw AnswerFault("records above the checkpoint \(least)", "version \(first)")
        }
        if let last = page.lastVersion, last > current {
            throw AnswerFault("records up to currentSyncVersion \(current)", "version \(last)")
        }
        return current
    }
}

extension JSONReader {
    /// A string, or nothing for `null`.
    mutating func readOptionalString() throws(JSONFailure) -> String? {
        try readNull() ? nil : readString()
    }
}
