import DeltaCalculator

@main struct Consumer {
    static func main() {
        let merged = DeltaCalculator().rebase(.init(old: 1, new: 3, rule: .sum), onto: 10)
        print("a sum of 2 over 10 is \(merged)")
    }
}
