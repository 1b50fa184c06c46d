import SyncTesting
import Testing

/// The rules of a suite that are broken by one of these mistakes at least: a rule that none breaks has shown nothing.
func broken<Subject: Sendable, Bug>(
    _ rules: [ContractRule<Subject>], by bugs: [Bug], _ make: (Bug) async throws -> Subject
) async -> [String] {
    var names: [String] = []
    for rule in rules {
        for bug in bugs {
            do { try await rule.check(try await make(bug)) } catch {
                names.append(rule.name)
                break
            }
        }
    }
    return names
}
