/// Times as the contract writes them: RFC 3339 in UTC with milliseconds.
enum Timestamp {
    static func text(_ milliseconds: Int64) -> String {
        let millisecond = floorMod(milliseconds, 1_000)
        let seconds = (milliseconds - millisecond) / 1_000
        let secondOfDay = floorMod(seconds, 86_400)
        let (year, month, day) = civil(fromDays: (seconds - secondOfDay) / 86_400)
        let date = "\(pad(year, 4))-\(pad(month, 2))-\(pad(day, 2))"
        let time = "\(pad(secondOfDay / 3_600, 2)):\(pad(secondOfDay / 60 % 60, 2)):\(pad(secondOfDay % 60, 2))"
        return "\(date)T\(time).\(pad(millisecond, 3))Z"
    }

    private static func pad(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }

    private static func floorMod(_ a: Int64, _ b: Int64) -> Int64 { ((a % b) + b) % b }

    /// Source: "chrono-Compatible Low-Level Date Algorithms", Howard Hinnant.
    private static func civil(fromDays days: Int64) -> (Int64, Int64, Int64) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }
}
