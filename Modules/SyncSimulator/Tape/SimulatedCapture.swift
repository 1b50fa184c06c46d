import SyncCore

/// How the app's writes are noticed in a run of seeds (``CaptureMode``).
enum SimulatedCapture: String, Sendable, Hashable, CaseIterable {
    /// Each change by a trigger, in the transaction of the write.
    case triggers
    /// Each row is marked, and becomes a change when somebody asks for the queue.
    case dirtyFlag
    /// Every second entity is marked, so that what stands under one is in the queue before it, or behind it.
    case mixed
    /// Each change by the app's word, in the transaction of the write (``ExplicitEdit``).
    case explicit
    /// The entities in turn by each of the three ways.
    case inTurn

    /// The same entities, captured so.
    func applied(to entities: [EntitySchema]) -> [EntitySchema] {
        entities.enumerated().map { place, entity in
            switch self {
            case .triggers: entity.captured(by: .triggers)
            case .dirtyFlag: entity.captured(by: .dirtyFlag)
            case .mixed: entity.captured(by: place % 2 == 0 ? .dirtyFlag : .triggers)
            case .explicit: entity.captured(by: .explicit)
            case .inTurn: entity.captured(by: CaptureMode.allCases[place % CaptureMode.allCases.count])
            }
        }
    }
}
