import SyncCore
import Testing

@testable import Orchestrator

/// The gate as a value: who says no, whom it stops, and for how long.
@Suite struct SyncGateTests {
    private let now = SyncGate.Moment(wall: 1_000_000, elapsed: 5_000)

    private func later(_ milliseconds: Int64) -> SyncGate.Moment {
        SyncGate.Moment(wall: now.wall + milliseconds, elapsed: now.elapsed + milliseconds)
    }

    private func isOpen(
        _ gate: SyncGate, _ lane: SyncGate.Lane = .records, _ urgency: Urgency = .routine,
        at time: SyncGate.Moment? = nil
    ) -> Bool {
        gate.answer(lane, urgency, at: time ?? now) == .open
    }

    @Test("Where nothing is known the gate is open, whatever the conditions: what nobody tells is no obstacle")
    func unknown() {
        let all: SyncGate.Conditions = [.unmetered, .charging, .notInLowDataMode]
        let gate = SyncGate(conditions: [.records: all])
        #expect(isOpen(gate))
    }

    @Test("Each condition stops its lane and no other, for the user as well, until it holds or the user overrides it")
    func lanes() {
        let cases: [(SyncGate.Conditions, NetworkPath, Bool?)] = [
            (.unmetered, NetworkPath(isReachable: true, isMetered: true), nil),
            (.notInLowDataMode, NetworkPath(isReachable: true, isLowData: true), nil),
            (.charging, NetworkPath(isReachable: true), false),
        ]
        for (conditions, path, isCharging) in cases {
            var gate = SyncGate(conditions: [.contents: conditions])
            _ = gate.noticed(path, at: now)
            gate.noticed(isCharging: isCharging)
            #expect(!isOpen(gate, .contents))
            #expect(!isOpen(gate, .contents, .user))
            #expect(isOpen(gate, .records))
            gate.override(.contents, forMilliseconds: 1_000, at: now)
            #expect(isOpen(gate, .contents))
            #expect(!isOpen(gate, .contents, at: later(1_000)), "its time is over")
            gate.override(.contents, forMilliseconds: .max, at: now)
            #expect(isOpen(gate, .contents, at: later(1 << 40)))
            gate.override(.contents, forMilliseconds: nil, at: now)
            #expect(!isOpen(gate, .contents))
            _ = gate.noticed(NetworkPath(isReachable: true), at: now)
            gate.noticed(isCharging: true)
            #expect(isOpen(gate, .contents))
        }
    }

    @Test(
        "SCH-10 a link that is said to be down delays the engine, never the user, and is tried after a while all the same"
    )
    func doubt() {
        var gate = SyncGate(longestDoubtMilliseconds: 60_000)
        let isNews = gate.noticed(NetworkPath(isReachable: false), at: now)
        #expect(!isNews)
        #expect(
            gate.answer(.records, .routine, at: later(10_000))
                == .closed(untilMilliseconds: now.wall + 60_000, cause: "there is no network"))
        #expect(isOpen(gate, .records, .user))
        #expect(isOpen(gate, at: later(60_000)))
        // A try begins the doubt anew; saying the same again does not.
        let tried = gate.enter(.records, .routine, at: later(60_000))
        #expect(tried == .open)
        _ = gate.noticed(NetworkPath(isReachable: false), at: later(100_000))
        #expect(!isOpen(gate, at: later(119_999)))
        #expect(isOpen(gate, at: later(120_000)))
        // Something that came in shows that there is a link, whatever the platform says.
        gate.invite(at: later(61_000))
        #expect(isOpen(gate, at: later(61_000)))
    }

    @Test("NET-24 a network that comes, or another one, is worth a cycle at once; the first word about it is not")
    func networks() {
        var gate = SyncGate()
        let steps: [(NetworkPath, isNews: Bool)] = [
            (NetworkPath(isReachable: true, link: "wifi"), false),
            (NetworkPath(isReachable: true, link: "wifi"), false),
            (NetworkPath(isReachable: true, isMetered: true, link: "cellular"), true),
            (NetworkPath(isReachable: false), false), (NetworkPath(isReachable: true, link: "cellular"), true),
        ]
        for (path, isNews) in steps {
            let found = gate.noticed(path, at: now)
            #expect(found == isNews, "\(path)")
        }
    }

    @Test("The server's word stops everybody; asking the gate takes nothing, entering takes the breaker's one probe")
    func wordAndProbe() {
        var gate = SyncGate(breaker: CircuitBreaker(threshold: 1, coolDownMilliseconds: 10_000))
        let left = gate.learned(QueueSchedule(serverNotBeforeMilliseconds: now.wall + 7_000, cause: "busy"), at: now)
        #expect(left == 7_000)
        #expect(
            gate.answer(.records, .user, at: later(1_000))
                == .closed(untilMilliseconds: now.wall + 7_000, cause: "busy"))
        #expect(isOpen(gate, at: later(7_000)))
        gate.breaker.failed(nowMilliseconds: now.elapsed + 7_000)
        #expect(!isOpen(gate, at: later(7_001)))
        for _ in 0..<3 { #expect(isOpen(gate, at: later(17_000))) }
        let first = gate.enter(.records, .routine, at: later(17_000))
        #expect(first == .open)
        #expect(!isOpen(gate, at: later(17_001)), "one probe is on its way")
        let second = gate.enter(.records, .routine, at: later(17_001))
        #expect(second != .open)
    }

    @Test("Background rounds: two in any 24 h, 6 h apart, whatever the clock does")
    func budget() {
        let budget = BackgroundBudget()
        let hour: Int64 = 3_600_000
        let start: Int64 = 1_000 * hour
        #expect(budget.next(after: [], now: start) == start)
        #expect(budget.next(after: [start], now: start + hour) == start + 6 * hour)
        #expect(budget.next(after: [start], now: start + 7 * hour) == start + 7 * hour)
        #expect(budget.next(after: [start, start + 6 * hour], now: start + 12 * hour) == start + 24 * hour)
        #expect(budget.next(after: [start, start + 20 * hour], now: start + 24 * hour) == start + 26 * hour)
        #expect(budget.next(after: [start, start + 6 * hour], now: start + 30 * hour) == start + 30 * hour)
        // The clock was set back by a year: a window from now at most.
        #expect(budget.next(after: [start, start + 6 * hour], now: start - 8_760 * hour) == start - 8_736 * hour)
    }
}

#if !canImport(Network)
    /// The kernel's tables as text.
    @Suite struct RoutesTests {
        private let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"

        @Test("A default route over IPv4 or IPv6 is a network; the loopback, a local net or an empty table is none")
        func tables() {
            let local = head + "eth0\t0011A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
            let four = local + "eth0\t00000000\t0111A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
            let zeros = String(repeating: "0", count: 32)
            func six(_ link: String) -> String {
                "\(zeros) 00 \(zeros) 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 \(link)\n"
            }
            #expect(Routes.path(four: four, six: "") == NetworkPath(isReachable: true, link: "eth0"))
            #expect(Routes.path(four: local, six: six("wlan0")) == NetworkPath(isReachable: true, link: "wlan0"))
            #expect(!Routes.path(four: local, six: six("lo")).isReachable)
            #expect(!Routes.path(four: "", six: "").isReachable)
        }
    }
#endif
