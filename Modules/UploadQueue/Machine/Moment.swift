/// What the machine is told of clock and chance with each event.
struct Moment: Sendable, Hashable {
    /// Milliseconds since 1970; may jump. For what is shown and what outlives a restart.
    var wall: Int64
    /// Milliseconds of a monotonic clock. For every delay within this process.
    var elapsed: Int64
    /// A random number of 0..<1, for this event alone.
    var chance: Double

    init(wall: Int64, elapsed: Int64, chance: Double = 0) {
        self.wall = wall
        self.elapsed = elapsed
        self.chance = chance
    }
}
