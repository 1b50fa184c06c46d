internal import NIOConcurrencyHelpers

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The `Date` field's value (RFC 9110, section 5.6.7), made once a second.
final class DateLine: Sendable {
    private let known = NIOLockedValueBox<(second: Int, text: String)>((-1, ""))
    private let second: @Sendable () -> Int

    /// - Parameter second: Seconds since 1970.
    init(second: @escaping @Sendable () -> Int = { time(nil) }) {  // live
        self.second = second
    }

    var text: String {
        let second = second()
        return known.withLockedValue { known in
            if known.second != second { known = (second, Self.text(second)) }
            return known.text
        }
    }

    static func text(_ second: Int) -> String {
        var second = time_t(second)
        var parts = tm()
        gmtime_r(&second, &parts)
        let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][Int(parts.tm_wday)]
        let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][
            Int(parts.tm_mon)]
        let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map(two).joined(separator: ":")
        return "\(day), \(two(parts.tm_mday)) \(month) \(1_900 + parts.tm_year) \(time) GMT"
    }

    private static func two(_ number: CInt) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
