import SyncCore
import SyncSimulator

/// Your own entities under the simulator: `Examples/run simulate --seeds 100`, and `--trace`, `--shrink` for what it finds.
@main
struct Simulate {
    static func main() throws {
        let notebook = EntitySchema("notebook", fields: [.text("title", required: true), .boolean("archived")])
        let note = EntitySchema(
            "note",
            fields: [
                .parent("idNotebook", "notebook"), .text("text", rule: .check), .integer("stars", rule: .sum),
                .json("tags", rule: .union), .date("due"),
            ])
        // An app's own merge rules come in as `deltas:`.
        try SimulatorCommand.run(entities: [notebook, note], program: "Examples/run simulate")
    }
}
