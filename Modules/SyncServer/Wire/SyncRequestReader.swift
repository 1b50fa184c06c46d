internal import SyncCore

/// Reads the body of `POST /api/sync`. What is wrong with the request's own shape is thrown as a ``Problem``; what is
/// wrong with one change stands in its place.
struct SyncRequestReader {
    let limits: ServerLimits
    let nowMilliseconds: Int64
    /// Which fields are ids, where the server makes its own.
    var naming: [String: EntityRules]?

    func read(_ body: [UInt8]) throws(Problem) -> SyncRequest {
        guard body.count <= limits.requestBytes else {
            throw .tooLarge("the request has more than \(limits.requestBytes) bytes")
        }
        do {
            var reader = JSONReader(body, maximumDepth: limits.depth)
            reader.refusesUnfitNumbers = false
            reader.wantsStreamSafeNames = true
            reader.tags = ChangeReader.names
            let request = try members(of: &reader)
            try reader.finish()
            return request
        } catch let problem as Problem {
            throw problem
        } catch let failure as JSONFailure {
            throw .malformed("the body is not the JSON that the contract asks for: \(failure)")
        } catch {
            throw .malformed("the body cannot be read")
        }
    }

    private func members(of reader: inout JSONReader) throws -> SyncRequest {
        var request = SyncRequest()
        var version: Int64?
        var hasCycle = false
        var hasDirty = false
        var dirtyAt: JSONReader?
        try reader.beginObject()
        while let name = try reader.nextKey() {
            switch name {
            case "protocol": version = try reader.readInt()
            case "cycleID":
                request.cycleID = try reader.readString()
                hasCycle = !request.cycleID.isEmpty
            case "deviceID": request.deviceID = try reader.readWord()
            case "dataset": request.dataset = try optional(&reader) { reader throws in try reader.readWord() }
            case "epoch": request.epoch = try optional(&reader) { reader throws in try reader.readWord() }
            case "lastSyncVersion":
                request.lastSyncVersion = try optional(&reader) { reader throws in
                    try number(&reader, "lastSyncVersion")
                }
            case "scopes": request.scopes = try optional(&reader, scopes)
            case "settled":
                request.settled =
                    try optional(&reader) { reader throws in try number(&reader, "settled") } ?? 0
            case "fullPass":
                request.isFullPass = try optional(&reader) { reader throws in try reader.readBool() } ?? false
            case "checksum":
                request.wantsChecksum = try optional(&reader) { reader throws in try reader.readBool() } ?? false
            case "limit":
                guard let limit = try optional(&reader, { reader throws in try reader.readInt() }) else { break }
                guard limit >= 1 else { throw Problem.malformed("limit is below 1") }
                request.limit = Int(min(limit, Int64(limits.greatestPage)))
            case "order":
                let order = try optional(&reader) { reader throws in try reader.readWord() } ?? "causal"
                guard order == "causal" || order == "strict" else { throw Problem.malformed("order is not known") }
                request.isStrict = order == "strict"
            case "dirtyRecords":
                guard try reader.peek() == .array else { throw Problem.malformed("dirtyRecords is no array") }
                hasDirty = true
                if RecordID.isID(request.deviceID) {
                    request.dirty = try dirty(&reader, device: request.deviceID)
                } else {
                    // The changes are read at the end, when the device is known.
                    dirtyAt = reader
                    try reader.skipValue()
                }
            default: try reader.skipValue()
            }
        }
        guard version == 1 else { throw Problem.malformed("protocol is not 1") }
        guard hasCycle else { throw Problem.malformed("cycleID is missing") }
        guard RecordID.isID(request.deviceID) else { throw Problem.malformed("deviceID is missing, or no id") }
        guard request.lastSyncVersion != nil || request.scopes != nil else {
            throw Problem.malformed("lastSyncVersion is missing")
        }
        guard hasDirty else { throw Problem.malformed("dirtyRecords is missing") }
        if var dirtyReader = dirtyAt { request.dirty = try dirty(&dirtyReader, device: request.deviceID) }
        return request
    }

    private func optional<Value>(
        _ reader: inout JSONReader, _ read: (inout JSONReader) throws -> Value
    ) throws -> Value? {
        if try reader.readNull() { return nil }
        return try read(&reader)
    }

    private func number(_ reader: inout JSONReader, _ name: String) throws -> Int64 {
        let number = try reader.readInt()
        guard number >= 0 else { throw Problem.malformed("\(name) is below 0") }
        return number
    }

    private func scopes(_ reader: inout JSONReader) throws -> [SyncRequest.Scope] {
        var scopes: [SyncRequest.Scope] = []
        try reader.beginObject()
        while let name = try reader.nextKey() {
            scopes.append(SyncRequest.Scope(name: name, checkpoint: try number(&reader, "a scope's checkpoint")))
            guard scopes.count <= limits.scopes else {
                throw Problem.tooLarge("more than \(limits.scopes) scopes")
            }
        }
        return scopes.sorted { $0.name < $1.name }
    }

    private func dirty(_ reader: inout JSONReader, device: String) throws -> [DirtyRecord] {
        var records: [DirtyRecord] = []
        var keys = Distinct<String>()
        let changes = ChangeReader(limits: limits, nowMilliseconds: nowMilliseconds, device: device, naming: naming)
        try reader.beginArray()
        // What did not fit before was no change's.
        _ = reader.takeUnfit()
        while try reader.nextElement() {
            guard records.count < limits.dirtyRecords else {
                throw Problem.tooLarge("more than \(limits.dirtyRecords) changes")
            }
            let record = try changes.read(&reader)
            guard keys.insert(record.changeID) else { throw Problem.malformed("a change is told twice") }
            records.append(record)
        }
        return records
    }
}
