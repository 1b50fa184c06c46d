import Testing

@testable import Orchestrator

@Suite struct CircuitBreakerTests {
    private let minute: Int64 = 60_000
    private func opened(at now: Int64 = 0) -> CircuitBreaker {
        var breaker = CircuitBreaker()
        for _ in 0..<5 { breaker.failed(nowMilliseconds: now) }
        return breaker
    }

    @Test("SCH-05 four failures and a success in a row leave it closed, five in a row open it")
    func threshold() {
        var breaker = CircuitBreaker()
        for _ in 0..<4 { breaker.failed(nowMilliseconds: 0) }
        breaker.succeeded()
        for _ in 0..<4 { breaker.failed(nowMilliseconds: 0) }
        #expect(breaker.state == .closed)
        breaker.failed(nowMilliseconds: 0)
        #expect(breaker.state == .open(untilMilliseconds: 30 * minute))
    }

    @Test("SCH-03 after the cool-down exactly one probe goes, its failure opens for longer, its success closes")
    func halfOpen() {
        var breaker = opened()
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute - 1) == false)
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == true)
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == false)
        breaker.failed(nowMilliseconds: 31 * minute)
        #expect(breaker.state == .open(untilMilliseconds: 91 * minute))
        #expect(breaker.mayGo(nowMilliseconds: 91 * minute) == true)
        breaker.succeeded()
        #expect(breaker.state == .closed)
        #expect(breaker.mayGo(nowMilliseconds: 91 * minute) == true)
    }

    @Test("SCH-04 a probe that was cancelled or never came back is followed by another within the bound")
    func lostProbe() {
        var breaker = opened()
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == true)
        breaker.learnedNothing(nowMilliseconds: 31 * minute)
        #expect(breaker.mayGo(nowMilliseconds: 31 * minute) == true)
        #expect(breaker.mayGo(nowMilliseconds: 60 * minute) == false)
        #expect(breaker.mayGo(nowMilliseconds: 61 * minute) == true)
    }

    @Test("SCH-04 a wall clock that jumps back a year does not hold it open for a year")
    func clockJump() {
        var breaker = opened(at: 365 * 24 * 60 * minute)
        #expect(breaker.mayGo(nowMilliseconds: 0) == true)
    }

    @Test("The user's wish probes an open breaker at once, and so does an invitation")
    func forced() {
        var breaker = opened()
        #expect(breaker.mayGo(nowMilliseconds: 1, isProbeForced: true) == true)
        var other = opened()
        other.invite()
        #expect(other.mayGo(nowMilliseconds: 5) == true)
    }

    @Test("SCH-03 a try within the cool-down that fails, or tells nothing, leaves it as long as it was")
    func triedBeforeItsEnd() {
        for fails in [true, false] {
            var breaker = opened()
            for tried in 1...5 {
                #expect(breaker.mayGo(nowMilliseconds: Int64(tried) * minute, isProbeForced: true) == true)
                if fails {
                    breaker.failed(nowMilliseconds: Int64(tried) * minute + 1)
                } else {
                    breaker.learnedNothing(nowMilliseconds: Int64(tried) * minute + 1)
                }
                #expect(breaker.state == .open(untilMilliseconds: 30 * minute))
            }
            // The one after it is the probe, and doubles.
            #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == true)
            breaker.failed(nowMilliseconds: 30 * minute)
            #expect(breaker.state == .open(untilMilliseconds: 90 * minute))
            #expect(breaker.mayGo(nowMilliseconds: 31 * minute, isProbeForced: true) == true)
            breaker.succeeded()
            #expect(breaker.state == .closed)
        }
    }

    @Test("SCH-03 what fails beside the probe decides nothing; the probe does, and a success of either")
    func besideTheProbe() {
        var breaker = opened()
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == true)
        for second in 1...10 { breaker.failed(nowMilliseconds: 30 * minute + Int64(second) * 1_000, isProbe: false) }
        #expect(breaker.state == .probing(sinceMilliseconds: 30 * minute))
        breaker.failed(nowMilliseconds: 31 * minute)
        #expect(breaker.state == .open(untilMilliseconds: 91 * minute))
        // While it is closed, what fails counts, whoever sent it.
        breaker = CircuitBreaker()
        for _ in 0..<5 { breaker.failed(nowMilliseconds: 0, isProbe: false) }
        #expect(breaker.state == .open(untilMilliseconds: 30 * minute))
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == true)
        breaker.succeeded()
        #expect(breaker.state == .closed)
    }

    @Test("SCH-04 invitations, however many, make no cool-down longer: a link that flaps keeps nobody away for hours")
    func invitedOften() {
        var breaker = opened()
        for second in 1...100 {
            breaker.invite()
            #expect(breaker.mayGo(nowMilliseconds: Int64(second) * 1_000) == true)
            breaker.failed(nowMilliseconds: Int64(second) * 1_000 + 500)
            #expect(breaker.mayGo(nowMilliseconds: Int64(second) * 1_000 + 600) == false)
        }
        #expect(breaker.remaining(nowMilliseconds: 29 * minute) == minute)
        #expect(breaker.mayGo(nowMilliseconds: 30 * minute) == true)
    }

    @Test("SCH-04 an invitation while a try hangs ends the cool-down with it")
    func invitedWhileProbing() {
        var breaker = opened()
        #expect(breaker.mayGo(nowMilliseconds: minute, isProbeForced: true) == true)
        breaker.invite()
        breaker.learnedNothing(nowMilliseconds: 3 * minute)
        #expect(breaker.mayGo(nowMilliseconds: 3 * minute) == true)
    }

    @Test("Repeated openings grow to the longest and no further")
    func growth() {
        var breaker = opened()
        var now: Int64 = 0
        for _ in 0..<100 {
            now += 5 * 60 * minute
            _ = breaker.mayGo(nowMilliseconds: now)
            breaker.failed(nowMilliseconds: now)
        }
        #expect(breaker.state == .open(untilMilliseconds: now + 4 * 60 * minute))
    }
}
