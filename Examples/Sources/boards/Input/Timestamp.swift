/// A moment, read from RFC 3339 with any offset, written in UTC with milliseconds as the wire wants it.
struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    let milliseconds: Int64

    init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// The moment of a text such as `2026-11-21T09:00:00.123+01:00`; `nil` for anything else. Digits of a second beyond
    /// the third are cut off; a leap second counts as the first of the next minute.
    init?(_ text: String) {
        var rest = Substring(text)
        guard let year = Self.digits(4, of: &rest), Self.skip("-", in: &rest), let month = Self.digits(2, of: &rest),
            Self.skip("-", in: &rest), let day = Self.digits(2, of: &rest), Self.skip("Tt ", in: &rest),
            let hour = Self.digits(2, of: &rest), Self.skip(":", in: &rest), let minute = Self.digits(2, of: &rest),
            Self.skip(":", in: &rest), let second = Self.digits(2, of: &rest), year >= 1, (1...12).contains(month),
            day >= 1, day <= Self.days(inMonth: month, of: year), hour < 24, minute < 60, second <= 60
        else { return nil }
        var fraction: Int64 = 0
        if Self.skip(".", in: &rest) {
            let digits = rest.prefix { ("0"..."9").contains($0) }
            guard !digits.isEmpty, let milliseconds = Int64((digits + "00").prefix(3)) else { return nil }
            fraction = milliseconds
            rest = rest.dropFirst(digits.count)
        }
        guard let offset = Self.offset(&rest), rest.isEmpty else { return nil }
        let time = Self.daysSince1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset
        milliseconds = time * 1_000 + fraction
        guard (Self.first...Self.last).contains(milliseconds) else { return nil }
    }

    static func < (a: Timestamp, b: Timestamp) -> Bool { a.milliseconds < b.milliseconds }

    var description: String {
        let fraction = ((milliseconds % 1_000) + 1_000) % 1_000
        let seconds = (milliseconds - fraction) / 1_000
        let second = ((seconds % 86_400) + 86_400) % 86_400
        let (year, month, day) = Self.date(daysSince1970: (seconds - second) / 86_400)
        return "\(Self.pad(year, 4))-\(Self.pad(month, 2))-\(Self.pad(day, 2))T\(Self.pad(second / 3_600, 2)):"
            + "\(Self.pad(second / 60 % 60, 2)):\(Self.pad(second % 60, 2)).\(Self.pad(fraction, 3))Z"
    }

    private static let first: Int64 = -62_135_596_800_000  // 0001-01-01T00:00:00.000Z
    private static let last: Int64 = 253_402_300_799_999  // 9999-12-31T23:59:59.999Z

    private static func digits(_ count: Int, of rest: inout Substring) -> Int64? {
        let digits = rest.prefix(count)
        guard digits.utf8.count == count, digits.allSatisfy({ ("0"..."9").contains($0) }) else { return nil }
        rest = rest.dropFirst(count)
        return Int64(digits)
    }

    private static func skip(_ characters: String, in rest: inout Substring) -> Bool {
        guard let first = rest.first, characters.contains(first) else { return false }
        rest = rest.dropFirst()
        return true
    }

    private static func offset(_ rest: inout Substring) -> Int64? {
        if skip("Zz", in: &rest) { return 0 }
        let sign: Int64
        if skip("+", in: &rest) { sign = 1 } else if skip("-", in: &rest) { sign = -1 } else { return nil }
        guard let hours = digits(2, of: &rest), skip(":", in: &rest), let minutes = digits(2, of: &rest), hours < 24,
            minutes < 60
        else { return nil }
        return sign * (hours * 3_600 + minutes * 60)
    }

    private static func days(inMonth month: Int64, of year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Days between 1970-01-01 and a date of the proleptic Gregorian calendar; years begin in March inside, so that the
    /// leap day is a year's last.
    private static func daysSince1970(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func date(daysSince1970 days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    private static func pad(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
