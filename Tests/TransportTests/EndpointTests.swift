import Testing

@testable import Transport

struct EndpointTests {
    @Test(
        "an endpoint is https to anybody, and http to this machine only",
        arguments: [
            ("https://api.example.com", "https://api.example.com"),
            ("HTTPS://API.Example.com/", "https://api.example.com"),
            ("https://api.example.com:8443/v2/", "https://api.example.com:8443/v2"),
            ("http://localhost:8080", "http://localhost:8080"), ("http://127.0.0.1", "http://127.0.0.1"),
            ("http://127.8.9.255:1", "http://127.8.9.255:1"), ("http://[::1]:80/a", "http://[::1]:80/a"),
            ("https://[2001:db8::1]", "https://[2001:db8::1]"),
        ])
    func accepts(_ text: String, _ read: String) throws {
        #expect(try Endpoint(text).description == read)
    }

    @Test(
        "SEC-19 plain http to another machine is refused without the explicit word",
        arguments: [
            "http://api.example.com", "http://127.0.0.1.example.com", "http://localhost.example.com",
            "http://1270.0.1", "http://127.0.0.1.5", "http://127.0.0.256", "http://[::2]", "http://10.0.0.1",
        ])
    func plainHTTP(_ text: String) throws {
        #expect(throws: Endpoint.Failure.plainHTTP(text)) { try Endpoint(text) }
        #expect(throws: Never.self) { try Endpoint(text, allowsPlainHTTP: true) }
    }

    @Test(
        "what is no endpoint is refused",
        arguments: [
            "", "api.example.com", "ftp://a", "https:/a", "https://", "https://a b", "https://user@a", "https://a:b@c",
            "https://a:0", "https://a:65536", "https://a:", "https://a/x?y=1", "https://a#b", "https://a\\b",
            "https://[::1", "https://é.com", "https://a/\r\nX: y", "javascript://a", "https://a:80:90",
        ])
    func malformed(_ text: String) {
        #expect(throws: Endpoint.Failure.malformed(text)) { try Endpoint(text, allowsPlainHTTP: true) }
    }

    @Test(
        "SEC-19 a redirect stays within the origin or is none",
        arguments: [
            ("/other", "/other"), ("/other?a=b#c", "/other?a=b"), ("https://api.example.com/x", "/x"),
            ("https://API.example.com:443/x?y", "/x?y"), ("https://api.example.com", "/"),
            ("//api.example.com/x", "/x"),
            ("next", "/api/next"), ("?p=2", "/api/sync?p=2"), ("https://evil.example.com/x", nil),
            ("http://api.example.com/x", nil), ("https://api.example.com:444/x", nil), ("//evil.example.com/", nil),
            ("https://api.example.com@evil.example.com/", nil), ("\\\\evil.example.com", nil), ("", nil),
            ("javascript:alert(1)", nil), ("/a\r\nX: y", nil), ("https:evil", nil),
        ] as [(String, String?)])
    func redirects(_ location: String, _ path: String?) throws {
        #expect(try Endpoint("https://api.example.com").resolve(location, from: "/api/sync?x=1") == path)
    }
}
