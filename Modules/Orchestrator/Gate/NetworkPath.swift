/// How this device is connected, as the platform says; always only a hint.
public struct NetworkPath: Sendable, Hashable {
    /// Whether anything can be reached at all.
    public var isReachable: Bool
    /// Bytes cost money, or count against an allowance (cellular, a personal hotspot).
    public var isMetered: Bool
    /// The user asked for little traffic (low-data mode).
    public var isLowData: Bool
    /// A name for the link (`wifi`, `cellular`, `en0`): another name is another network.
    public var link: String

    public init(isReachable: Bool, isMetered: Bool = false, isLowData: Bool = false, link: String = "") {
        self.isReachable = isReachable
        self.isMetered = isMetered
        self.isLowData = isLowData
        self.link = link
    }
}

/// Tells how the device is connected.
///
/// Asked for by the engine, given by the platform (``SystemConnectivity``), by an app or by a test that yields paths. The
/// stream begins with the present path, keeps the newest only, and may end: then nothing is known. What it says starts
/// or delays cycles; whether a server is reached is shown by requests alone.
public protocol Connectivity: Sendable {
    /// Paths as they change; each call has a stream of its own, which ends with the task that listens.
    func paths() -> AsyncStream<NetworkPath>
}
