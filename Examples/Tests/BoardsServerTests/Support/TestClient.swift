import AsyncHTTPClient
import NIOCore
import NIOHTTP1

/// An ordinary HTTP client for one server.
struct TestClient: Sendable {
    let port: Int
    var token: String?

    /// Lives as long as the tests; answers stay as they came.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        configuration.decompression = .disabled
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    enum Method: String { case GET, HEAD, POST, PUT, DELETE }

    struct Fields: Sendable {
        let pairs: [(name: String, value: String)]

        func first(name: String) -> String? { pairs.first { $0.name.lowercased() == name.lowercased() }?.value }
    }

    struct Reply: Sendable {
        let status: Int
        let headers: Fields
        let bytes: [UInt8]

        var text: String { String(decoding: bytes, as: UTF8.self) }
    }

    func send(
        _ method: Method, _ path: String, _ headers: [String: String] = [:], body: [UInt8]? = nil
    ) async throws -> Reply {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = HTTPMethod(rawValue: method.rawValue)
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) { request.headers.add(name: name, value: value) }
        if let token { request.headers.replaceOrAdd(name: "Authorization", value: "Bearer \(token)") }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await Self.client.execute(request, timeout: .seconds(60))
        let answer = try await response.body.collect(upTo: 64 << 20)
        return Reply(
            status: Int(response.status.code), headers: Fields(pairs: response.headers.map { ($0.name, $0.value) }),
            bytes: Array(answer.readableBytesView))
    }

    func json(_ method: Method, _ path: String, _ headers: [String: String] = [:], _ text: String) async throws
        -> Reply
    {
        try await send(
            method, path, headers.merging(["Content-Type": "application/json"]) { one, _ in one },
            body: Array(text.utf8))
    }

    func sync(_ text: String, _ headers: [String: String] = [:]) async throws -> Reply {
        try await json(.POST, "/api/sync", headers, text)
    }
}
