import HTTPTypes

/// The pauses that a server asks for in headers (PROTOCOL.md, section 4).
enum ServerPause {
    /// No server can ask for more.
    static let cap: Double = 86_400

    /// `Retry-After` in seconds: the largest valid of several, capped; nonsense and negative ones are ignored.
    ///
    /// An HTTP date counts from the answer's own `Date`, so that a device with a wrong clock waits as long as the server
    /// means; without one, from `nowMilliseconds`. A date that is past asks for 0.
    static func retryAfter(_ fields: HTTPFields, nowMilliseconds: Int64) -> Double? {
        let here = Double(nowMilliseconds) / 1000
        let now = fields[.date].flatMap { CalendarTime.httpDate($0, now: here) }.map(Double.init) ?? here
        return fields[values: .retryAfter].flatMap(pieces).compactMap { piece in
            if let seconds = seconds(piece) { return seconds }
            return CalendarTime.httpDate(piece, now: now).map { min(max(Double($0) - now, 0), cap) }
        }.max()
    }

    /// `Backoff` in seconds, read like `Retry-After`'s seconds.
    static func backoff(_ fields: HTTPFields) -> Double? {
        guard fields.contains(.backoff) else { return nil }
        return fields[values: .backoff].flatMap(pieces).compactMap(seconds).max()
    }

    /// Whole seconds, capped.
    private static func seconds(_ text: String) -> Double? {
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        return min(Double(text) ?? cap, cap)
    }

    /// The values of one header line: a list is split at its commas, but not within a date.
    private static func pieces(_ line: String) -> [String] {
        var pieces: [String] = []
        for part in line.split(separator: ",", omittingEmptySubsequences: true) {
            let text = part.drop { $0 == " " || $0 == "\t" }
            let isDay = pieces.last.map { $0.last?.isLetter == true && !$0.contains(" ") } ?? false
            if isDay, !pieces.isEmpty {
                pieces[pieces.count - 1] += ", " + text
            } else {
                pieces.append(String(text))
            }
        }
        return pieces.map { String($0.reversed().drop { $0 == " " || $0 == "\t" }.reversed()) }
    }
}

extension HTTPField.Name {
    static let backoff = Self("Backoff")!
    static let requestID = Self("X-Request-ID")!
    static let idempotencyKey = Self("Idempotency-Key")!
    static let syncDevice = Self("Sync-Device")!
    static let idempotencyReplayed = Self("Idempotency-Replayed")!
}
