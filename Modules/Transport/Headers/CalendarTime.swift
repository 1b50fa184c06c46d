/// Times as texts on the wire, read without a calendar library: all are in UTC and of the Gregorian calendar.
enum CalendarTime {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Seconds since 1970 of an HTTP date in any of its three forms (RFC 9110, section 5.6.7).
    /// - Parameter now: the present time, for a year of two digits: one more than 50 years ahead was in the last century.
    static func httpDate(_ text: String, now: Double) -> Int64? {
        let parts = text.split { $0 == " " || $0 == "," }
        // Sun, 06 Nov 1994 08:49:37 GMT
        if parts.count == 6, parts[5] == "GMT", let year = number(parts[3], 4) {
            return seconds(year, parts[2], parts[1], parts[4])
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        if parts.count == 4, parts[3] == "GMT" {
            let day = parts[1].split(separator: "-")
            guard day.count == 3, let short = number(day[2], 2) else { return nil }
            guard let later = seconds(2000 + short, day[1], day[0], parts[2]) else { return nil }
            let fiftyYears = 50 * 365.2425 * 86_400
            return Double(later) - now > fiftyYears ? seconds(1900 + short, day[1], day[0], parts[2]) : later
        }
        // Sun Nov  6 08:49:37 1994
        if parts.count == 5, let year = number(parts[4], 4) {
            return seconds(year, parts[1], parts[2], parts[3])
        }
        return nil
    }

    /// Milliseconds since 1970 of an RFC 3339 time, with any number of fraction digits and any offset.
    static func rfc3339(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes[4] == 0x2d, bytes[7] == 0x2d, bytes[10] | 0x20 == 0x74 || bytes[10] == 0x20,
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
            let time = clock(bytes[11..<19]), let days = days(year, month, day)
        else { return nil }
        var rest = bytes[19...]
        var milliseconds: Int64 = 0
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { $0 >= 0x30 && $0 <= 0x39 }
            guard !digits.isEmpty else { return nil }
            rest = rest.dropFirst(digits.count + 1)
            for place in 0..<3 {
                let digit = place < digits.count ? Int64(digits[digits.startIndex + place] - 0x30) : 0
                milliseconds = milliseconds * 10 + digit
            }
        }
        var offset: Int64 = 0
        if rest.count == 6, rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") {
            let digits = Array(rest)
            guard digits[3] == UInt8(ascii: ":"), let hours = number(digits[1..<3]), let minutes = number(digits[4..<6])
            else { return nil }
            offset = (hours * 60 + minutes) * (digits[0] == UInt8(ascii: "-") ? -60 : 60)
        } else {
            guard rest.count == 1, rest.first! | 0x20 == UInt8(ascii: "z") else { return nil }
        }
        return (days * 86_400 + time - offset) * 1000 + milliseconds
    }

    private static func seconds(_ year: Int64, _ month: Substring, _ day: Substring, _ time: Substring) -> Int64? {
        guard let index = months.firstIndex(of: String(month)), let day = Int64(day), let clock = clock(time.utf8),
            let days = days(year, Int64(index + 1), day)
        else { return nil }
        return days * 86_400 + clock
    }

    /// Seconds of `08:49:37`; a leap second counts as the next one.
    private static func clock(_ text: some Collection<UInt8>) -> Int64? {
        let bytes = Array(text)
        guard bytes.count == 8, bytes[2] == UInt8(ascii: ":"), bytes[5] == UInt8(ascii: ":"),
            let hours = number(bytes[0..<2]), let minutes = number(bytes[3..<5]), let seconds = number(bytes[6..<8]),
            hours < 24, minutes < 60, seconds <= 60
        else { return nil }
        return hours * 3600 + minutes * 60 + seconds
    }

    private static func number(_ text: Substring, _ digits: Int) -> Int64? {
        text.utf8.count == digits ? number(text.utf8) : nil
    }

    private static func number(_ bytes: some Collection<UInt8>) -> Int64? {
        var value: Int64 = 0
        for byte in bytes {
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            value = value * 10 + Int64(byte - 0x30)
        }
        return value
    }

    /// Days since 1970-01-01 ("chrono-Compatible Low-Level Date Algorithms", Hinnant).
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64? {
        guard (1...12).contains(month), (1...31).contains(day), (0...9999).contains(year) else { return nil }
        let y = month <= 2 ? year - 1 : year
        let era = (y >= 0 ? y : y - 399) / 400
        let yearOfEra = y - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}
