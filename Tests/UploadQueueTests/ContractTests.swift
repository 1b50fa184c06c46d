import SyncCore
import SyncTesting
import Testing

@Suite("The change log's contract, on the in-memory log")
struct ContractTests {
    @Test("each rule holds", .timeLimit(.minutes(20)), arguments: ChangeLogContract.rules.indices)
    func rule(_ index: Int) async throws {
        let log = InMemoryChangeLog(
            schema: try Schema(ChangeLogContract.entities), wallClock: ManualWallClock(), ids: SeededIDs(seed: 1))
        try await ChangeLogContract.rules[index].check(log.subject())
    }
}
