public import HTTPTypes

/// The seam for an HTTP client: one request with its body in, the head of the answer and its body as a stream out.
///
/// Given by ``AsyncHTTPClientTransport`` on Linux and ``URLSessionTransport`` on Apple, or by an app that has a client
/// of its own. What an implementer must guarantee:
/// - One call is one request on the wire. It never repeats a request, follows no redirect, keeps no cookies, has no
///   cache, and gives the body as it came (no decompression).
/// - A body that ends before its `Content-Length`, or without its last chunk, ends with a failure of kind
///   `interrupted`, never as if it were whole.
/// - Certificates are checked. A connection that does not come about, in a time of its own choice, is `noConnection`.
/// - Cancelling the task ends the request soon, also while the body is read. A body that is dropped unread frees the
///   connection.
///
/// All other deadlines, limits and retries are Transport's. Fake it with a closure over a dictionary, or put
/// SyncTesting's hostile server behind a real one.
public protocol HTTPTransport: Sendable {
    /// Sends one request; the answer's body is still to come.
    ///
    /// - Parameter request: with scheme, authority and path, and with `Content-Length` where there is a body.
    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer

    /// Ends what is under way and frees all connections; later calls fail with `closed`. Calling it again is harmless.
    func close() async
}

/// The head of an answer, and its body as a stream.
public struct HTTPAnswer: Sendable {
    public var head: HTTPResponse
    public var body: HTTPBody

    public init(head: HTTPResponse, body: HTTPBody) {
        self.head = head
        self.body = body
    }
}

/// An answer's body, pulled piece by piece by one reader.
public struct HTTPBody: Sendable {
    private let pull: @Sendable () async throws(HTTPFailure) -> [UInt8]?

    /// A body that comes from `next`, which is called again after each piece until it gives `nil` or fails, never twice
    /// at once. What it keeps alive is let go when the body is.
    public init(next: @escaping @Sendable () async throws(HTTPFailure) -> [UInt8]?) {
        pull = next
    }

    /// A body that is here already.
    public init(_ bytes: [UInt8]) {
        let rest = Locked<[UInt8]?>(bytes.isEmpty ? nil : bytes)
        pull = { () async throws(HTTPFailure) -> [UInt8]? in
            rest.withLock { rest in
                defer { rest = nil }
                return rest
            }
        }
    }

    /// The next piece; `nil` at the end.
    public func next() async throws(HTTPFailure) -> [UInt8]? {
        try await pull()
    }
}
