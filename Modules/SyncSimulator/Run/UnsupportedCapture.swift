public import SyncCore

/// The simulator cannot judge an entity: its changes are made by the app's word alone.
///
/// What it checks of a write (I1, I4) is that its change is in the queue as soon as its transaction is over, or, under a dirty flag, as soon as
/// somebody asks for the queue. Under `explicit` the app says what a change is, and when.
public struct UnsupportedCapture: Error, Sendable, Hashable, CustomStringConvertible {
    public let entity: String
    public let capture: CaptureMode

    public var description: String {
        "The entity “\(entity)” is captured by \(capture.rawValue), and the simulator judges writes that are noticed by themselves;"
            + " declare it here with capture: .triggers, which leaves everything behind the capture as it is."
    }
}
