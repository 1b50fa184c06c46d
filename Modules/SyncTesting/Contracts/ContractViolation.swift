/// An implementation broke a rule of its seam.
public struct ContractViolation: Error, Sendable, Hashable, CustomStringConvertible {
    /// The seam.
    public let contract: String
    /// The rule, in a sentence.
    public let rule: String
    /// What was expected and what came.
    public let message: String

    public init(contract: String, rule: String, message: String) {
        self.contract = contract
        self.rule = rule
        self.message = message
    }

    public var description: String { "\(contract): \(rule) — \(message)" }
}

/// One rule of a seam, and how it is tried.
public struct ContractRule<Subject: Sendable>: Sendable {
    /// The rule, in a sentence.
    public let name: String
    let contract: String
    let body: @Sendable (Subject, Expectation) async throws -> Void

    package init(
        _ contract: String, _ name: String,
        _ body: @escaping @Sendable (Subject, Expectation) async throws -> Void
    ) {
        self.contract = contract
        self.name = name
        self.body = body
    }

    /// Tries the rule on a fresh subject.
    /// - Throws: ``ContractViolation``, or what the subject threw.
    public func check(_ subject: Subject) async throws {
        try await body(subject, Expectation(contract: contract, rule: name))
    }
}

/// How a rule says what it expects.
package struct Expectation: Sendable {
    package let contract: String
    package let rule: String

    package func isTrue(_ condition: Bool, _ message: @autoclosure () -> String) throws(ContractViolation) {
        guard condition else { throw ContractViolation(contract: contract, rule: rule, message: message()) }
    }

    package func equal<Value: Equatable>(_ actual: Value, _ expected: Value, _ what: String) throws(ContractViolation) {
        guard actual == expected else {
            throw ContractViolation(
                contract: contract, rule: rule, message: "\(what): expected \(expected), got \(actual)")
        }
    }

    /// The failure of `body`, which must not succeed.
    package func failure<Failure: Error>(
        _ body: () async throws(Failure) -> Void
    ) async throws(ContractViolation) -> Failure {
        do throws(Failure) {
            try await body()
        } catch {
            return error
        }
        throw ContractViolation(contract: contract, rule: rule, message: "nothing was thrown")
    }
}
