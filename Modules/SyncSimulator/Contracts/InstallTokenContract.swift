public import Storage
public import SyncTesting

/// A keeper of tokens on trial, and two places of databases in a folder that it may write to.
public struct InstallTokenSubject: Sendable {
    public var tokens: any InstallToken
    public var database: String
    public var other: String

    public init(tokens: any InstallToken, database: String, other: String) {
        self.tokens = tokens
        self.database = database
        self.other = other
    }
}

/// What every ``InstallToken`` must keep; run each rule on a fresh one, with nothing kept.
///
/// That a token comes with no backup and no copy is the platform's, and for a test of the implementer's own.
public enum InstallTokenContract {
    public static let rules: [ContractRule<InstallTokenSubject>] = [
        rule("where nothing was kept there is none") { subject, expect in
            try expect.equal(try subject.tokens.token(for: subject.database), nil, "token")
        },
        rule("what was kept is there, the same at each look") { subject, expect in
            try subject.tokens.keep("first", for: subject.database)
            let token = try subject.tokens.token(for: subject.database)
            try expect.isTrue(token?.contains("first") == true, "it is \(token ?? "none")")
            for _ in 0..<3 { try expect.equal(try subject.tokens.token(for: subject.database), token, "token") }
        },
        rule("a token that is kept in another's place is another") { subject, expect in
            try subject.tokens.keep("first", for: subject.database)
            let first = try subject.tokens.token(for: subject.database)
            try subject.tokens.keep("second", for: subject.database)
            let second = try subject.tokens.token(for: subject.database)
            try expect.isTrue(second != first && second?.contains("second") == true, "it is \(second ?? "none")")
        },
        rule("each database has its own") { subject, expect in
            try subject.tokens.keep("first", for: subject.database)
            try expect.equal(try subject.tokens.token(for: subject.other), nil, "the other's")
            try subject.tokens.keep("second", for: subject.other)
            try expect.isTrue(
                try subject.tokens.token(for: subject.database)?.contains("first") == true, "the first was lost")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (InstallTokenSubject, Expectation) async throws -> Void
    ) -> ContractRule<InstallTokenSubject> { ContractRule("InstallToken", name, body) }
}
