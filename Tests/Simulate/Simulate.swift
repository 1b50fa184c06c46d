import SyncSimulator

/// `Tests/run simulate`: the simulator over its own boards, lists, cards and comments.
@main
struct Simulate {
    static func main() throws { try SimulatorCommand.run(program: "Tests/run simulate") }
}
