import Orchestrator
import SyncTesting

/// How an app asks its engine for a sync: each way ends otherwise, and some give up what is under way.
enum SyncWish: Sendable, Hashable {
    /// `syncNow()`.
    case atOnce
    /// `runOnce(deadline:)`, in so many milliseconds.
    case once(milliseconds: Int64)
    /// `sync(for:)`, for so many.
    case several(milliseconds: Int64)
    /// `backgroundRound(deadline:)`, in so many.
    case background(milliseconds: Int64)

    /// The wish of a step; what it draws moves nothing else.
    init(seed: UInt64, step: Int) {
        var chance = SeededGenerator(seed: SeededGenerator.mixed(seed, UInt64(step)), .wishes)
        // From less than one request takes to more than all.
        let milliseconds = Int64([50, 400, 2_500, 20_000][chance.below(4)] + chance.below(500))
        switch chance.below(8) {
        case 0, 1: self = .once(milliseconds: milliseconds)
        case 2, 3: self = .several(milliseconds: milliseconds)
        case 4: self = .background(milliseconds: milliseconds)
        default: self = .atOnce
        }
    }

    /// Asks, and waits for the end.
    /// - Returns: what came of it; `nil` where the store could not tell, or the budget has no more rounds.
    func perform(_ engine: SyncEngine) async -> CycleEnd? {
        do {
            switch self {
            case .atOnce: return await engine.syncNow().end
            case .once(let milliseconds): return await engine.runOnce(deadline: .milliseconds(milliseconds)).end
            case .several(let milliseconds):
                return try await engine.sync(for: .milliseconds(milliseconds)).report.end
            case .background(let milliseconds):
                guard case .ran(let report) = try await engine.backgroundRound(deadline: .milliseconds(milliseconds))
                else { return nil }
                return report.end
            }
        } catch {
            // kept: the disk failed, or the process ended: the checks see what is in the file.
            return nil
        }
    }
}
