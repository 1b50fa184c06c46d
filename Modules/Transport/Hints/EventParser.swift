import SyncCore

/// Reads a stream of server-sent events piece by piece: a pure value with bounded memory.
///
/// Only what hints need: `data` lines make one event at an empty line; comments, ids and other fields are passed over. What
/// is no hint's JSON, or longer than a hint can be, is passed over, too: losing one loses nothing.
struct EventParser: Sendable {
    private let mostBytes: Int
    private var line: [UInt8] = []
    private var data: [UInt8] = []
    private var hasData = false
    /// The line, or the event, is longer than allowed: it is passed over to its end.
    private var isOverlong = false
    private var lastWasCR = false

    /// - Parameter mostBytes: the longest line, and the longest event.
    init(mostBytes: Int = 64 << 10) { self.mostBytes = mostBytes }

    /// The hints that this piece completes.
    mutating func take(_ bytes: [UInt8]) -> [Hint] {
        var hints: [Hint] = []
        for byte in bytes {
            defer { lastWasCR = byte == 0x0d }
            switch byte {
            case 0x0a where lastWasCR: continue
            case 0x0a, 0x0d:
                if let hint = endLine() { hints.append(hint) }
            default:
                if line.count < mostBytes { line.append(byte) } else { isOverlong = true }
            }
        }
        return hints
    }

    private mutating func endLine() -> Hint? {
        defer { line.removeAll(keepingCapacity: true) }
        guard !line.isEmpty else { return endEvent() }
        guard line.starts(with: Array("data:".utf8)) else { return nil }
        var value = line[5...]
        if value.first == 0x20 { value = value.dropFirst() }
        if hasData { data.append(0x0a) }
        hasData = true
        if data.count + value.count <= mostBytes { data += value } else { isOverlong = true }
        return nil
    }

    private mutating func endEvent() -> Hint? {
        defer {
            data.removeAll(keepingCapacity: true)
            hasData = false
            isOverlong = false
        }
        guard hasData, !isOverlong else { return nil }
        return Self.hint(data)
    }

    /// The hint in an event's data; `nil` for anything else.
    static func hint(_ json: [UInt8]) -> Hint? {
        let value: FieldValue
        do throws(JSONFailure) { value = try FieldValue(json: json) } catch { return nil }  // kept: no hint
        guard case .object(let members) = value else { return nil }
        var hint = Hint()
        if case .int(let version)? = members["currentSyncVersion"] { hint.currentSyncVersion = version }
        if case .array(let scopes)? = members["scopes"] {
            hint.scopes = scopes.compactMap { if case .string(let name) = $0 { name } else { nil } }
        }
        return hint
    }
}
