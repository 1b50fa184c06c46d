/// One measured figure beside the same work done by the bare parts, in the same run.
package struct Figure: Sendable {
    package var name: String
    /// What was measured, and what the bare parts did, in one sentence.
    package var what: String
    package var value: Double
    package var unit: String
    /// The bare parts' value in the same unit.
    package var bare: Double
    /// The greatest ratio of value to bare that is good enough; infinite where none is set.
    package var goal: Double

    package init(name: String, what: String, value: Double, unit: String, bare: Double, goal: Double) {
        self.name = name
        self.what = what
        self.value = value
        self.unit = unit
        self.bare = bare
        self.goal = goal
    }

    package var ratio: Double { value / bare }
    package var met: Bool { ratio <= goal }

    package var line: String {
        let aim = goal.isFinite ? "goal \(Self.short(goal)): \(met ? "met" : "MISSED")" : "no goal"
        return "\(name): \(Self.short(value)) \(unit), bare \(Self.short(bare)) \(unit), ratio \(Self.short(ratio)), "
            + "\(aim)\n    \(what)"
    }

    package var json: String {
        """
        {"name":"\(name)","what":"\(what)","value":\(value),"unit":"\(unit)","bare":\(bare),\
        "ratio":\(ratio),"goal":\(goal.isFinite ? "\(goal)" : "null"),"met":\(met)}
        """
    }

    private static func short(_ value: Double) -> String {
        let scaled = (value * 1_000).rounded() / 1_000
        return value >= 100 ? "\(Int(value.rounded()))" : "\(scaled)"
    }
}

/// The middle of several runs, since a machine that is shared is noisy.
package func median(of runs: Int, _ run: () throws -> Double) rethrows -> Double {
    var values: [Double] = []
    for _ in 0..<runs { values.append(try run()) }
    values.sort()
    return values[values.count / 2]
}

/// Seconds that a piece of work took.
package func seconds(_ work: () throws -> Void) rethrows -> Double {
    let clock = ContinuousClock()
    let time = try clock.measure(work)
    return Double(time.components.seconds) + Double(time.components.attoseconds) * 1e-18
}
