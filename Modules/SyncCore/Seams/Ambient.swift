#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The time of day. Asked for by all, given by the platform; SyncTesting's can be moved.
public protocol WallClock: Sendable {
    /// Milliseconds since 1970-01-01T00:00:00Z; may jump.
    var nowMilliseconds: Int64 { get }
}

/// The platform's clock.
public struct SystemWallClock: WallClock {
    public init() {}
    public var nowMilliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)  // live
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}

/// Chance. Asked for by all, given by the platform; SyncTesting's is seeded.
public protocol Randomness: Sendable {
    /// 64 random bits.
    func next() -> UInt64
}

extension Randomness {
    /// A random number of 0..<1.
    public func unit() -> Double { Double(next() >> 11) * 0x1p-53 }
}

/// The platform's source, fit for ids.
public struct SystemRandomness: Randomness {
    public init() {}
    public func next() -> UInt64 { UInt64.random(in: .min ... .max) }  // live
}

/// Makes ids. Asked for by all; two calls never give the same.
public protocol IDSource: Sendable {
    /// A new id, by default a UUID version 7 in lower case.
    func makeID() -> String
}

/// UUIDs of version 7 (RFC 9562): they sort roughly by the time they were made.
public struct UUIDv7Source: IDSource {
    private let clock: any WallClock
    private let randomness: any Randomness

    public init(
        clock: any WallClock = SystemWallClock(),  // live
        randomness: any Randomness = SystemRandomness()  // live
    ) {
        self.clock = clock
        self.randomness = randomness
    }

    public func makeID() -> String {
        let high = UInt64(clock.nowMilliseconds) << 16 | 0x7000 | (randomness.next() & 0x0fff)
        let low = 0x8000_0000_0000_0000 | (randomness.next() >> 2)
        return Self.text(high: high, low: low)
    }

    /// A UUID's text, lower case.
    static func text(high: UInt64, low: UInt64) -> String {
        String(unsafeUninitializedCapacity: 36) { buffer in
            var place = 0
            for index in 0..<32 {
                if index == 8 || index == 12 || index == 16 || index == 20 {
                    buffer[place] = UInt8(ascii: "-")
                    place += 1
                }
                let word = index < 16 ? high : low
                let digit = UInt8(truncatingIfNeeded: (word >> UInt64(60 - (index % 16) * 4)) & 0xf)
                buffer[place] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
                place += 1
            }
            return 36
        }
    }
}
