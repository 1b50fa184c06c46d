import SyncCore

/// The contract's limits of one request (PROTOCOL.md, section 4, *Limits*).
public struct BatchLimits: Sendable, Hashable {
    /// The most changes of one request.
    public var changes: Int
    /// The most bytes of one request's body, before compression.
    public var bytes: Int

    public init(changes: Int = 1000, bytes: Int = 8 << 20) {
        self.changes = changes
        self.bytes = bytes
    }
}

/// A request as bytes, and how many of its changes stand in it.
struct EncodedBatch: Sendable, Equatable {
    var body: [UInt8]
    /// The first so many changes of the request; what is left over must be sent by a later one.
    var count: Int
}

/// Writes the request of a round trip (PROTOCOL.md, section 1).
struct BatchEncoder: Sendable {
    var limits = BatchLimits()

    /// Writes as many changes as the limits allow, from the first on, and never a part of a unit.
    ///
    /// - Throws: `tooLarge` if not even the first change, or the unit that it belongs to, fits; `unknown` if a value has
    ///   no form in JSON.
    func encode(_ request: ExchangeRequest) throws(ExchangeFailure) -> EncodedBatch {
        let head = head(of: request)
        let most = min(request.changes.count, limits.changes)
        var elements = JSONWriter(capacity: 256 * most)
        var ends = [0]
        elements.beginArray()
        for (index, change) in request.changes.prefix(most).enumerated() {
            do throws(JSONFailure) {
                try Self.write(change, into: &elements)
            } catch {
                throw ExchangeFailure(
                    kind: .unknown,
                    message: "A change has a value that cannot be sent; its changes are tried in smaller parts "
                        + "(change \(index): \(error)).")
            }
            if head.count + elements.count + 2 > limits.bytes { break }
            ends.append(elements.count)
        }
        let count = Self.cut(request.changes, at: ends.count - 1)
        guard count > 0 || request.changes.isEmpty else {
            throw ExchangeFailure(
                kind: .tooLarge,
                message: "A change is too large to be sent; it is set aside (the first change, or its unit, is above "
                    + "\(limits.changes) changes or \(limits.bytes) bytes).")
        }
        var body = head
        body.reserveCapacity(head.count + ends[count] + 2)
        let written = elements.takeBytes()
        body.append(contentsOf: count == 0 ? [UInt8(ascii: "[")][...] : written[..<ends[count]])
        body.append(contentsOf: "]}".utf8)
        return EncodedBatch(body: body, count: count)
    }

    /// The greatest number up to `fitting` of changes that divides no unit.
    static func cut(_ changes: [Change], at fitting: Int) -> Int {
        guard fitting < changes.count else { return fitting }
        var last: [String: Int] = [:]
        for (index, change) in changes.enumerated() {
            if let unit = change.unit { last[unit] = index }
        }
        var cut = 0
        var open = -1
        for (index, change) in changes.prefix(fitting).enumerated() {
            if let unit = change.unit { open = max(open, last[unit] ?? index) }
            if open <= index { cut = index + 1 }
        }
        return cut
    }

    /// Everything in front of the changes, `"dirtyRecords":` included.
    private func head(of request: ExchangeRequest) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        writer.member("protocol", 1)
        writer.member("cycleID", request.cycleID)
        writer.member("deviceID", request.deviceID)
        writer.member("dataset", request.dataset)
        writer.member("epoch", request.epoch)
        if let scopes = request.scopes {
            writer.key("scopes")
            writer.beginObject()
            for (scope, version) in scopes.inByteOrder { writer.member(scope, version) }
            writer.endObject()
        } else {
            writer.member("lastSyncVersion", request.lastSyncVersion)
        }
        writer.member("settled", request.settled)
        if request.fullPass { writer.flag("fullPass") }
        writer.member("limit", Int64(request.limit))
        if request.isStrict { writer.member("order", "strict") }
        if request.wantsChecksum { writer.flag("checksum") }
        writer.key("dirtyRecords")
        return writer.takeBytes()
    }

    /// Writes one change, always the same bytes for the same change.
    static func write(_ change: Change, into writer: inout JSONWriter) throws(JSONFailure) {
        writer.beginObject()
        writer.member("changeID", change.id)
        writer.member("sequence", change.sequence)
        writer.member("deviceID", change.deviceID)
        writer.member("entity", change.record.entity)
        writer.member("id", change.record.id)
        writer.member("operation", change.operation.rawValue)
        writer.member("schemaVersion", Int64(change.schemaVersion))
        writer.member("stamp", change.stamp.description)
        writer.member("baseVersion", change.baseVersion)
        writer.member("transaction", change.unit)
        writer.member("intent", change.intent)
        if change.operation != .delete {
            writer.key("fields")
            writer.beginObject()
            for (name, delta) in change.fields.inByteOrder {
                writer.key(name)
                try write(delta, of: change, into: &writer)
            }
            writer.endObject()
        }
        writer.endObject()
    }

    private static func write(
        _ delta: FieldDelta, of change: Change, into writer: inout JSONWriter
    ) throws(JSONFailure) {
        writer.beginObject()
        if let old = delta.old, change.operation != .create {
            writer.key("old")
            try writer.value(old)
        }
        writer.key("new")
        try writer.value(delta.new)
        if delta.rule != .lastWriter { writer.member("rule", delta.rule.rawValue) }
        if let stamp = delta.stamp { writer.member("stamp", stamp.description) }
        writer.endObject()
    }
}

extension JSONWriter {
    /// A member with a text; none if there is no value.
    mutating func member(_ name: String, _ value: String?) {
        guard let value else { return }
        key(name)
        string(value)
    }

    /// A member with an integer; none if there is no value.
    mutating func member(_ name: String, _ value: Int64?) {
        guard let value else { return }
        key(name)
        int(value)
    }

    /// A member that is `true`.
    mutating func flag(_ name: String) {
        key(name)
        bool(true)
    }
}
