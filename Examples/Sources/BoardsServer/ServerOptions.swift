/// How the reference server is run: what `boards serve` takes from its command line, as a value.
public struct ServerOptions: Sendable, Equatable {
    /// The address to listen on; only this machine by default, since TLS is a proxy's work.
    public var host = "127.0.0.1"
    /// The port to listen on; 0 lets the system choose a free one.
    public var port = 8080
    /// The database file; nil keeps everything in memory, gone when the server ends.
    public var database: String?
    /// The file of `token account` lines; nil serves one open account to everybody who can connect.
    public var tokens: String?

    /// The defaults.
    public init() {}
}
