import SyncCore
import Testing

@testable import SyncSimulator

@Suite struct FailureTests {
    @Test("A failure is taken only while something is wrong that makes it", arguments: StoreFailure.Kind.allCases)
    func explained(kind: StoreFailure.Kind) {
        func isExplained(isLocked: Bool = false, isStruck: Bool = false) -> Bool {
            World.isExplained(kind, isLocked: isLocked, isStruck)
        }
        #expect(!isExplained())
        #expect(isExplained(isLocked: true) == (kind == .busy))
        #expect(isExplained(isStruck: true) == [.busy, .full, .io].contains(kind))
    }
}
