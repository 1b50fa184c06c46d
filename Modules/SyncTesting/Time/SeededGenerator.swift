/// A small, fast source of numbers that a seed decides entirely: SplitMix64.
///
/// For tests and simulations only. Source: "Fast Splittable Pseudorandom Number Generators", Steele, Lea and Flood, 2014.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// The sequence of this seed.
    public init(seed: UInt64) { state = seed }

    /// The sequence of a part of a seed, independent of the other parts' (`stream` is any number that names the part).
    public init(seed: UInt64, stream: UInt64) {
        var mixed = SeededGenerator(seed: seed ^ (stream &* 0xd134_2543_de82_ef95))
        state = mixed.next()
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    /// A number of 0..<`bound`, by multiplication: the same on every platform; `bound` must not be 0.
    public mutating func below(_ bound: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(bound)).high)
    }

    /// Whether an event of this probability happens.
    public mutating func chance(_ probability: Double) -> Bool { unit() < probability }

    /// A number of 0..<1.
    public mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    /// One of the elements, which must not be empty.
    public mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
