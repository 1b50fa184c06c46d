import Foundation
import SyncCore
import Testing

@testable import SyncSimulator

/// A user's own entities under the simulator: their tables, their columns, every kind of field.
@Suite struct OwnEntitiesTests {
    /// The simulator's own app, whose tables and columns are called otherwise than what they hold.
    private static let renamed = SimulationSchema.entities.map { entity in
        EntitySchema(
            entity.name, table: "t_\(entity.name)", keyColumn: "uuid", version: entity.version,
            fields: entity.fields.map { field in
                FieldSchema(
                    field.name, column: "c_\(field.name)", kind: field.kind, rule: field.rule,
                    reference: field.reference,
                    isRequired: field.isRequired)
            })
    }

    private func run(_ seed: UInt64, _ entities: [EntitySchema]) throws -> SeedReport {
        try Simulation.run(seed: seed, try SimulationOptions(folder: NSTemporaryDirectory(), entities: entities))
    }

    /// Neither seed is one of those in which our own app is another one, and 3 meets the reference server.
    @Test("An app whose tables and columns have names of their own lives the same seed", arguments: [1, 3] as [UInt64])
    func names(seed: UInt64) throws {
        let (mine, theirs) = (try run(seed, SimulationSchema.entities), try run(seed, Self.renamed))
        #expect(theirs.violations.isEmpty, "\(theirs.violations)")
        #expect(theirs.localWrites == mine.localWrites)
        #expect(theirs.traceHash == mine.traceHash)
    }

    @Test(
        "Every kind of field, and a reference that must be there, are written as an app writes them", arguments: [1, 3])
    func kinds(seed: UInt64) throws {
        let place = EntitySchema("place", table: "places", keyColumn: "key", fields: [.text("name", required: true)])
        let visit = EntitySchema(
            "visit", table: "visits",
            fields: [
                .date("at"), .data("picture"), .real("length"), .boolean("paid"), .integer("steps"), .json("notes"),
                FieldSchema(
                    "idPlace", column: "place_key", kind: .text,
                    reference: Reference(entity: "place", isParent: false), isRequired: true),
            ])
        let report = try run(seed, [visit, place])
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.localWrites > 40)
        #expect(report.coverage[.otherReference] ?? 0 > 0)
    }

    @Test("Entities that are captured in all three ways beside one another, under each other")
    func captured() throws {
        let entities = SimulationSchema.entities
        let report = try run(43, SimulatedCapture.inTurn.applied(to: entities))
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.localWrites > 40)
    }
}
