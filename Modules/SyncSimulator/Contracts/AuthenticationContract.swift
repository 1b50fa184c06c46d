public import SyncTesting
public import Transport
import HTTPTypes
import SyncCore

/// What every ``Authentication`` must keep; run each rule on a fresh one, whether it can have a new proof or not.
public enum AuthenticationContract {
    public static let rules: [ContractRule<any Authentication>] = [
        rule("the request stays what it is; a proof is added") { authentication, expect in
            let request = request("/a/path?b=c")
            let proved = try await authentication.authenticate(request, body: [1])
            try expect.equal(proved.method, request.method, "method")
            try expect.equal(proved.authority, request.authority, "authority")
            for field in request.headerFields {
                try expect.equal(proved.headerFields[field.name], field.value, "\(field.name)")
            }
        },
        rule("the same request has the same proof, as long as none is renewed") { authentication, expect in
            let first = try await authentication.authenticate(request("/a"), body: [])
            try expect.equal(try await authentication.authenticate(request("/a"), body: []), first, "proved again")
        },
        rule("after a renewal a request goes with another proof; without one it is not sent again") {
            authentication, expect in
            let refused = try await authentication.authenticate(request("/a"), body: [])
            guard try await authentication.renew(after: refused) else { return }
            let next = try await authentication.authenticate(request("/a"), body: [])
            try expect.isTrue(next != refused, "the refused proof came back")
        },
        rule("many that were refused with one proof need one renewal") { authentication, expect in
            let refused = try await authentication.authenticate(request("/a"), body: [])
            let renewed = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<8 { group.addTask { try await authentication.renew(after: refused) } }
                return try await group.reduce(into: Set<Bool>()) { $0.insert($1) }
            }
            try expect.equal(renewed.count, 1, "answers")
            guard renewed.contains(true) else { return }
            let next = try await authentication.authenticate(request("/a"), body: [])
            // Who comes late with the old proof learns that there is a new one already.
            try expect.equal(try await authentication.renew(after: refused), true, "a late one")
            try expect.equal(try await authentication.authenticate(request("/a"), body: []), next, "the proof")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (any Authentication, Expectation) async throws -> Void
    ) -> ContractRule<any Authentication> { ContractRule("Authentication", name, body) }

    private static func request(_ path: String) -> HTTPRequest {
        var request = HTTPRequest(method: .post, scheme: "https", authority: "api.example.com", path: path)
        request.headerFields[.contentType] = "application/json"
        return request
    }
}
