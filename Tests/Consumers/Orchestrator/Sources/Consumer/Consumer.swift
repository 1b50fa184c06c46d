import Orchestrator

@main struct Consumer {
    static func main() {
        var breaker = CircuitBreaker()
        for _ in 0..<5 { breaker.failed(nowMilliseconds: 0) }
        print("after five failures a request may go: \(breaker.mayGo(nowMilliseconds: 1))")
    }
}
