/// What is still to happen in a seed, by time.
struct Agenda {
    enum Event {
        case step(WorkloadTape.Step)
        case fault(FaultTape.TimedFault)
        case start(device: Int)
        case resume(device: Int)
        case online(device: Int)
        case unlock(device: Int)
        case unpause(device: Int)
        case signIn(device: Int)
        case signBack(device: Int)
        case calm
        case second(SecondProcess.Event, device: Int, number: Int)
    }

    /// By time, then by the order in which they were put in.
    private var entries: [(at: Int64, event: Event)] = []

    mutating func add(_ event: Event, at milliseconds: Int64) {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].at <= milliseconds { low = middle + 1 } else { high = middle }
        }
        entries.insert((milliseconds, event), at: low)
    }

    /// The next event, unless it is later than `end`.
    mutating func next(before end: Int64) -> (at: Int64, event: Event)? {
        guard let first = entries.first, first.at < end else { return nil }
        entries.removeFirst()
        return first
    }
}
