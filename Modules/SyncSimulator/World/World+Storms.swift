import SyncCore

/// A server that fails for minutes, whatever it is asked.
extension World {
    func begin(_ storm: FaultTape.Storm, for milliseconds: Int64) {
        for device in devices { device.network.storm = storm }
        stormEnd = max(stormEnd, now + milliseconds)
        switch storm {
        case .status: record.struck("storm of statuses")
        case .timeOut: record.struck("storm of time-outs")
        }
        agenda.add(.calm, at: stormEnd)
    }

    /// The server is itself again, unless another storm goes on.
    func calm() {
        guard now >= stormEnd else { return }
        for device in devices { device.network.storm = nil }
    }
}
