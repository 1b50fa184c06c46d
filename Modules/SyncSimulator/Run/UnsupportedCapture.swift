public import SyncCore

/// The simulator cannot judge an entity: its changes are noticed otherwise than at the write.
///
/// What it checks of a write (I1, I4) is that its change is in the queue as soon as its transaction is over. Under a dirty flag
/// changes are made when they are collected, and under `explicit` when the app says so.
public struct UnsupportedCapture: Error, Sendable, Hashable, CustomStringConvertible {
    public let entity: String
    public let capture: CaptureMode

    public var description: String {
        "The entity “\(entity)” is captured by \(capture.rawValue), and the simulator judges writes that triggers capture;"
            + " declare it here with capture: .triggers, which leaves everything behind the capture as it is."
    }
}
