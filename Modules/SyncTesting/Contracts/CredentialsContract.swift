public import SyncCore

/// What every ``Credentials`` must keep; run each rule on fresh ones, whether they can have a new token or not.
public enum CredentialsContract {
    public static let rules: [ContractRule<any Credentials>] = [
        rule("asking for the present token changes nothing") { credentials, expect in
            let first = try await credentials.token()
            for _ in 0..<3 { try expect.equal(try await credentials.token(), first, "asked again") }
        },
        rule("a token carries something, and in one line") { credentials, expect in
            guard let token = try await credentials.token() else { return }
            let fits = token.value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }
            try expect.isTrue(!token.value.isEmpty && fits, "no header can carry it")
        },
        rule("the refused token does not come back in its own place, however often it is refused") {
            credentials, expect in
            var old = try await credentials.token()
            for _ in 0..<4 {
                let new = try await credentials.refresh(old)
                if let new { try expect.isTrue(new.value != old?.value, "the refused token came back") }
                guard let new else { break }
                old = new
            }
        },
        rule("the new token speaks for the account that the old one spoke for") { credentials, expect in
            let old = try await credentials.token()
            guard let account = old?.account, let new = try await credentials.refresh(old) else { return }
            try expect.equal(new.account, account, "account")
        },
        rule("many that were refused at once all get another token, or none does") { credentials, expect in
            let old = try await credentials.token()
            let new = try await withThrowingTaskGroup(of: Token?.self) { group in
                for _ in 0..<8 { group.addTask { try await credentials.refresh(old) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            try expect.isTrue(!new.contains { $0 != nil && $0?.value == old?.value }, "the refused token came back")
            try expect.equal(Set(new.map { $0 == nil }).count, 1, "who got one, and who did not")
        },
        rule("who has no token may ask for one") { credentials, expect in
            guard let new = try await credentials.refresh(nil) else { return }
            try expect.isTrue(!new.value.isEmpty, "it is empty")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (any Credentials, Expectation) async throws -> Void
    ) -> ContractRule<any Credentials> { ContractRule("Credentials", name, body) }
}
