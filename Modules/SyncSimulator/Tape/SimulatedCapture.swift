import SyncCore

/// How the app's writes are noticed in a run of seeds (``CaptureMode``).
enum SimulatedCapture: String, Sendable, Hashable, CaseIterable {
    /// Each change by a trigger, in the transaction of the write.
    case triggers
    /// Each row is marked, and becomes a change when somebody asks for the queue.
    case dirtyFlag
    /// Every second entity is marked, so that what stands under one is in the queue before it, or behind it.
    case mixed

    /// The same entities, captured so.
    func applied(to entities: [EntitySchema]) -> [EntitySchema] {
        entities.enumerated().map { place, entity in
            let isMarked = self == .dirtyFlag || self == .mixed && place % 2 == 0
            return entity.captured(by: isMarked ? .dirtyFlag : .triggers)
        }
    }
}
