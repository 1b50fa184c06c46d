import SyncTesting

extension FaultTape {
    /// What happens to the server's process; only the reference server has one.
    public enum ServerFault: Sendable, Hashable {
        /// It is killed at this statement of its storage, counted from the start of the seed.
        case crashAtStatement(Int)
        /// It is killed when the work of this request is committed, and its answer has not left.
        case crashAfterRequest(Int)
    }

    /// What happens to the server of a seed: a tape of its own, so that it moves nothing on the others.
    static func serverFaults(_ seed: UInt64) -> [Fault] {
        var chance = SeededGenerator(seed: seed, .serverFaults)
        guard chance.chance(0.4) else { return [] }
        let statements = (0..<chance.below(5)).map { _ in Fault.server(.crashAtStatement(20 + chance.below(2_500))) }
        let requests = (0..<chance.below(3)).map { _ in Fault.server(.crashAfterRequest(3 + chance.below(80))) }
        return statements + requests
    }
}
