import HTTPTypes
import Testing

@testable import Transport

struct HeaderTests {
    /// 1994-11-06T08:49:37Z
    static let now: Int64 = 784_111_777_000

    @Test(
        "NET-16 Retry-After in all its forms: the largest valid, capped; nonsense and negative ignored",
        arguments: [
            (["7"], 7), (["0"], 0), (["-1"], nil), (["1e9"], nil), (["1000000000"], 86_400), (["soon"], nil),
            (["99999999999999999999999999"], 86_400), (["7", "120"], 120), (["7, 120"], 120), (["-5", "3"], 3),
            ([""], nil), (["7.5"], nil), ([" 7 "], 7), (["Sun, 06 Nov 1994 08:49:47 GMT"], 10),
            (["Sunday, 06-Nov-94 08:49:47 GMT"], 10), (["Sunday, 06-Nov-94 08:49:27 GMT"], 0),
            (["Friday, 06-Nov-43 08:49:47 GMT"], 86_400), (["Monday, 06-Nov-45 08:49:47 GMT"], 0),
            (["Sun Nov  6 08:49:47 1994"], 10),
            (["Sun, 06 Nov 1994 08:49:27 GMT"], 0), (["Sun, 06 Nov 2094 08:49:27 GMT"], 86_400),
            (["5", "Sun, 06 Nov 1994 08:49:47 GMT"], 10), (["5, Sun, 06 Nov 1994 08:49:47 GMT, 9"], 10),
            (["Sun, 32 Nov 1994 08:49:47 GMT"], nil), (["Sun, 06 Nov 1994 24:49:47 GMT"], nil), ([], nil),
        ] as [([String], Double?)])
    func retryAfter(_ values: [String], _ seconds: Double?) {
        var fields = HTTPFields()
        for value in values { fields.append(HTTPField(name: .retryAfter, value: value)) }
        #expect(ServerPause.retryAfter(fields, nowMilliseconds: Self.now) == seconds)
    }

    @Test("NET-16 a year of two digits is at most 50 years ahead: what is long past asks for no pause")
    func twoDigits() {
        var fields = HTTPFields()
        fields[.retryAfter] = "Sunday, 06-Nov-94 08:49:37 GMT"
        // 2026-11-21T08:00:00Z
        #expect(ServerPause.retryAfter(fields, nowMilliseconds: 1_795_248_000_000) == 0)
        fields[.retryAfter] = "Saturday, 21-Nov-26 08:00:30 GMT"
        #expect(ServerPause.retryAfter(fields, nowMilliseconds: 1_795_248_000_000) == 30)
        fields[.date] = "Saturday, 21-Nov-26 08:00:10 GMT"
        #expect(ServerPause.retryAfter(fields, nowMilliseconds: 1_795_248_000_000) == 20)
    }

    @Test("SCH-08 a date counts from the answer's own date, not from a wrong clock")
    func ownDate() {
        var fields = HTTPFields()
        fields[.retryAfter] = "Sun, 06 Nov 1994 08:49:47 GMT"
        fields[.date] = "Sun, 06 Nov 1994 08:49:37 GMT"
        #expect(ServerPause.retryAfter(fields, nowMilliseconds: 0) == 10)
        #expect(ServerPause.retryAfter(fields, nowMilliseconds: .max) == 10)
    }

    @Test(
        "Backoff is seconds",
        arguments: [("30", 30), ("-1", nil), ("x", nil), ("100000", 86_400)] as [(String, Double?)])
    func backoff(_ value: String, _ seconds: Double?) {
        var fields = HTTPFields()
        fields[.backoff] = value
        #expect(ServerPause.backoff(fields) == seconds)
    }

    @Test(
        "DAT-16 times of RFC 3339",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2026-11-21T08:00:00.123Z", 1_795_248_000_123),
            ("2026-11-21T08:00:00.123456789Z", 1_795_248_000_123), ("2026-11-21T09:30:00.1+01:30", 1_795_248_000_100),
            ("1969-12-31T23:59:59.999Z", -1), ("0001-01-01T00:00:00Z", -62_135_596_800_000),
            ("9999-12-31T23:59:60Z", 253_402_300_800_000), ("2026-13-01T00:00:00Z", nil), ("2026-11-21T08:00:00", nil),
            ("2026-11-21T08:00:00.Z", nil), ("x", nil), ("2026-11-21T25:00:00Z", nil),
        ] as [(String, Int64?)])
    func rfc3339(_ text: String, _ milliseconds: Int64?) {
        #expect(CalendarTime.rfc3339(text) == milliseconds)
    }

    @Test(
        "a media type is read without its parameters",
        arguments: [
            (["application/json"], "application/json"), (["Application/JSON; charset=utf-8"], "application/json"),
            (["text/html"], "text/html"), ([], nil), (["text/html", "application/json"], nil),
        ] as [([String], String?)])
    func mediaType(_ values: [String], _ type: String?) {
        var fields = HTTPFields()
        for value in values { fields.append(HTTPField(name: .contentType, value: value)) }
        #expect(fields.mediaType == type)
    }
}
