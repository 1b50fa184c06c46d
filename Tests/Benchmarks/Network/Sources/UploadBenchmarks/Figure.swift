/// One measured figure beside the same work done by the bare parts, in the same run.
struct Figure {
    var name: String
    /// What was measured, and what the bare parts did, in one sentence.
    var what: String
    var value: Double
    var unit: String
    /// The bare parts' value in the same unit.
    var bare: Double
    /// The greatest ratio of value to bare that is good enough.
    var goal: Double

    var ratio: Double { value / bare }
    var met: Bool { ratio <= goal }

    var line: String {
        "\(name): \(Self.short(value)) \(unit), bare \(Self.short(bare)) \(unit), ratio \(Self.short(ratio)), "
            + "goal \(Self.short(goal)): \(met ? "met" : "MISSED")\n    \(what)"
    }

    var json: String {
        """
        {"name":"\(name)","what":"\(what)","value":\(value),"unit":"\(unit)","bare":\(bare),\
        "ratio":\(ratio),"goal":\(goal),"met":\(met)}
        """
    }

    private static func short(_ value: Double) -> String {
        let scaled = (value * 1_000).rounded() / 1_000
        return value >= 100 ? "\(Int(value.rounded()))" : "\(scaled)"
    }
}
